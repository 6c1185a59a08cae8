"""ForkedProcess: a function in a process of its own, forked from one that has loaded the services' modules.

Such a start costs a hundredth of a second of the processor; a new interpreter needs half a second for its imports.
"""

import contextlib
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import TextIO

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
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([*_MODULES])


class ForkedProcess:
    """Calls a function of a module; the methods are those of subprocess.Popen. It ends when its parent does."""

    def __init__(
        self,
        function: Callable[..., object],
        *arguments: object,
        stdin: Path = Path(os.devnull),
        stdout: Path = Path(os.devnull),
        stderr: Path = Path(os.devnull),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """The function's arguments are pickled; what it prints is appended to files. Its result is the exit code."""
        environment, files = dict(os.environ if env is None else env), (stdin, stdout, stderr)
        for file in (stdout, stderr):
            file.open("ab").close()  # it is there at once
        self._process = _forks.Process(target=_be, args=(function, arguments, environment, cwd or Path.cwd(), files))
        self._process.start()

    @property
    def pid(self) -> int:
        """The number that the system gave it."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended; raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may end in between: it is the forking server's child
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process."""
        self.send_signal(signal.SIGKILL)


def _be(
    function: Callable[..., object],
    arguments: tuple[object, ...],
    environment: dict[str, str],
    cwd: Path,
    files: tuple[Path, Path, Path],
) -> None:
    """Run as the process, and exit at its end."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = (_reopened(number, file) for number, file in enumerate(files))
    sys.exit(function(*arguments))  # type: ignore[arg-type]


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _reopened(number: int, file: Path) -> TextIO:
    """The stream of a file descriptor, which is that file from now on."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, number)
    os.close(opened)
    stream = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffered = io.BufferedReader(stream) if number == 0 else io.BufferedWriter(stream)
    return io.TextIOWrapper(buffered, line_buffering=number == 2)
