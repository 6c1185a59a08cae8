"""Running a command on a terminal of its own, and noting what it writes and when."""

import codecs
import os
import pty
import subprocess
import termios
import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass

_ROWS = 1000
_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Output:
    """What was written, and how many seconds after the first of all that was."""

    seconds: float
    text: str


@dataclass(frozen=True)
class Recording:
    """All that a command wrote, and how it ended."""

    outputs: list[Output]
    exit_code: int


def record(command: Seq[str], columns: int) -> Recording:
    """Run a command to its end; the clock begins with its first output, so that loading is not shown."""
    inside, outside = pty.openpty()
    try:
        termios.tcsetwinsize(outside, (_ROWS, columns))
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=outside, stderr=outside)
    except BaseException:
        os.close(inside)
        raise
    finally:
        os.close(outside)
    with process, open(inside, "rb", buffering=0) as terminal:
        outputs = list(_read(terminal.fileno()))
    return Recording(outputs, process.returncode)


def _read(terminal: int) -> Iterator[Output]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    started = None
    while written := _written(terminal):
        now = time.monotonic()
        started = now if started is None else started
        if text := decoder.decode(written):
            yield Output(now - started, text)


def _written(terminal: int) -> bytes:
    """What was written next; nothing at the end, which Linux reports as an error of input."""
    try:
        return os.read(terminal, _AT_ONCE)
    except OSError:
        return b""
