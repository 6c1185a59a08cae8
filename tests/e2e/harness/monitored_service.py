"""A service as its own command starts it, which counts the KV blocks that it uses in a file.

`python -m tests.e2e.harness.monitored_service FILE NAME OPTIONS…` is one that does not outlive the process that started
it.
"""

import os
import sys
import threading
from pathlib import Path
from unittest import mock

from services.cli import main
from services.engine.grammar.process import GrammarProcess
from tests.e2e.harness.block_gauge import BlockGauge


def run(gauge: Path, arguments: list[str]) -> int:
    """Be the service that the arguments of `outrider` name; a draft's process for grammars comes with its first one."""
    BlockGauge(gauge).watch()
    sys.argv = ["outrider", *arguments]
    with mock.patch.object(GrammarProcess, "begin"):
        return main(arguments)


def _end_with_parent() -> None:
    """Standard input is a pipe whose other end goes when the parent does."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
