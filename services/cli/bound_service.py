"""python -m services.cli.bound_service NAME …: run a service that ends with the process that started it.

The starting process holds the other end of our standard input, which closes however that process ends, even by SIGKILL.
"""

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    """Run the service whose name is the first argument, with the remaining arguments as its options."""
    name = sys.argv.pop(1)
    threading.Thread(target=_end_with_starter, name="starter", daemon=True).start()
    runpy.run_module(f"services.{name}", run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    while os.read(sys.stdin.fileno(), 1):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
