"""python -m services.cli.bound_service NAME …: a service that does not outlive whoever has started it.

Who started it holds the other end of its standard input, which breaks however that process ends, even by SIGKILL.
"""

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    """Run the service of this name, with the options behind it."""
    name = sys.argv.pop(1)
    threading.Thread(target=_end_with_starter, name="starter", daemon=True).start()
    runpy.run_module(f"services.{name}", run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    while os.read(sys.stdin.fileno(), 1):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
