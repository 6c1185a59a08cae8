"""Commands of `outrider` in processes that are forked from one which has loaded its modules: a start costs no second.

Each is a process of its own, with its own environment, folder, input and output. What starts as a shell starts it is
run by `tests.rpc.harness.commands.outrider_begin`.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.cli import main
from tests.harness.processes.forked_process import ForkedProcess

_SECONDS = 240  # that no command takes, on however busy a machine


@dataclass(frozen=True, slots=True)
class WarmProcess:
    """A command that runs, and the files that it writes."""

    process: ForkedProcess
    stdout: Path
    stderr: Path


@contextmanager
def warm_process(arguments: Seq[str], *, input: str = "", **options: Any) -> Iterator[WarmProcess]:
    """Start a command, with options of ForkedProcess; it is killed at the end of the block, if it has not ended."""
    with tempfile.TemporaryDirectory() as folder:
        stdin, stdout, stderr = (Path(folder) / name for name in ("in", "out", "err"))
        stdin.write_text(input)
        process = ForkedProcess(run, [*arguments], stdin=stdin, stdout=stdout, stderr=stderr, **options)
        try:
            yield WarmProcess(process, stdout, stderr)
        finally:
            process.kill()
            process.wait()


def run_warm(arguments: Seq[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, with options of `warm_process`; raises TimeoutExpired where it does not end."""
    with warm_process(arguments, **options) as command:
        code = command.process.wait(_SECONDS)
        said, told = command.stdout.read_text(), command.stderr.read_text()
        return subprocess.CompletedProcess(["outrider", *arguments], code, said, told)


def run(arguments: list[str]) -> int:
    """Be the command, in a process that was forked for it.

    A target computes in that process too, unless an option says otherwise: another takes a second to start.
    """
    if arguments[:1] == ["target"] and not {"--fronts", "--help"} & {*arguments}:
        arguments = [*arguments, "--fronts", "0"]
    sys.argv = ["outrider", *arguments]
    return main(arguments)
