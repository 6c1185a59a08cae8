"""`python -m tests.e2e.monitored_service NAME FILE OPTIONS…`: a service as its own command starts it, watched.

It does not outlive the process that started it, and counts the KV blocks that it uses in FILE.
"""

import os
import runpy
import sys
import threading
from pathlib import Path

from tests.e2e.block_gauge import BlockGauge


def _end_with_parent() -> None:
    """Standard input is a pipe whose other end goes when the parent does."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    _, name, file, *options = sys.argv
    threading.Thread(target=_end_with_parent, daemon=True).start()
    BlockGauge(Path(file)).watch()
    sys.argv[1:] = options
    runpy.run_module(f"services.{name}", run_name="__main__")
