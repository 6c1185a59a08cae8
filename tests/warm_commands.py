"""Commands of `outrider` in processes that are forked from one which has loaded its modules: a start costs no second.

Each is a process of its own, with its own environment, folder, input and output. What starts as a shell starts it is
run by `tests.rpc.commands.outrider_begin`.
"""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TextIO

from services.cli import main

# Not the library of the hub, which reads the environment as it is loaded.
_MODULES = (
    "__main__",
    __name__,
    "httpx",
    "services.cli.calls.generate",
    "services.cli.up",
    "services.draft.command",
    "services.target.command",
)
_SECONDS = 240  # that no command takes, on however busy a machine
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([*_MODULES])


@dataclass(frozen=True, slots=True)
class WarmProcess:
    """A command that runs, and the files that it writes."""

    process: BaseProcess
    stdout: Path
    stderr: Path


@contextmanager
def warm_process(
    arguments: Seq[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, input: str = ""
) -> Iterator[WarmProcess]:
    """Start a command; it is killed at the end of the block, if it has not ended by itself."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("in", "out", "err")]
        files[0].write_text(input)
        environment = dict(os.environ if env is None else env)
        process = _forks.Process(target=_run, args=([*arguments], environment, cwd or Path.cwd(), files))
        process.start()
        try:
            yield WarmProcess(process, *files[1:])
        finally:
            process.kill()
            process.join()


def run_warm(arguments: Seq[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, with options of `warm_process`; raises TimeoutError where it does not end."""
    with warm_process(arguments, **options) as command:
        command.process.join(_SECONDS)
        code = command.process.exitcode
        if code is None:
            raise TimeoutError(f"outrider {' '.join(arguments)} did not end")
        said, told = command.stdout.read_text(), command.stderr.read_text()
        return subprocess.CompletedProcess(["outrider", *arguments], code, said, told)


def _run(arguments: list[str], environment: dict[str, str], cwd: Path, files: list[Path]) -> None:
    """Be the command, in a process that was forked for it."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["outrider", *arguments]
    sys.stdin, sys.stdout, sys.stderr = (_reopened(number, file) for number, file in enumerate(files))
    sys.exit(main(arguments))


def _reopened(number: int, file: Path) -> TextIO:
    """The stream of a file descriptor, which is that file from now on."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, number)
    os.close(opened)
    stream = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffered = io.BufferedReader(stream) if number == 0 else io.BufferedWriter(stream)
    return io.TextIOWrapper(buffered, line_buffering=number == 2)
