"""The `outrider` command, as a shell runs it."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.harness.log_scan import betrayals
from tests.harness.processes.warm_commands import run_warm

OUTRIDER = str(Path(sys.executable).with_name("outrider"))
SMALL = ["--kv-blocks", "64", "--threads", "1"]


def outrider_run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a process that is forked for it; `options` are those of `run_warm`."""
    done = run_warm(arguments, **options)
    assert betrayals(done.stderr) == [], "the log of a command betrays nothing"
    return done


@contextlib.contextmanager
def outrider_begin(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a process group of its own, as a shell does; all of it is dead at the end of the block."""
    with subprocess.Popen(
        [OUTRIDER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """What a terminal does: the signal goes to the command and to all that it started."""
    os.killpg(process.pid, signal.SIGINT)
