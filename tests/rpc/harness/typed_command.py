"""TypedCommand: a command on a terminal of its own, with input from a test."""

import contextlib
import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator

from tests.rpc.harness.commands import OUTRIDER

_AT_ONCE = 1 << 16
_AGAIN_SECONDS = 5.0  # in which a program on a busy machine answers its input


class TypedCommand:
    """What the command has written, and the keys for it."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self._process, self._terminal = process, terminal
        self._unread = ""

    def until(self, text: str) -> str:
        """All that is written up to a text, which it waits for, and with it; raises EOFError if it never comes."""
        while text not in self._unread:
            try:
                self._unread += os.read(self._terminal, _AT_ONCE).decode(errors="replace").replace("\r\n", "\n")
            except OSError as error:  # as Linux tells the end
                raise EOFError(f"{text!r} is not in {self._unread!r}") from error
        end = self._unread.index(text) + len(text)
        read, self._unread = self._unread[:end], self._unread[end:]
        return read

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._terminal, text.encode())

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._process.kill()

    def press_ctrl_c(self) -> None:
        """Interrupt what runs."""
        os.killpg(self._process.pid, signal.SIGINT)

    def press_ctrl_c_until(self, text: str) -> None:
        """Interrupt a line, and again where the program was not yet waiting for keys, until it writes a text."""
        while True:
            self.press_ctrl_c()
            if select.select([self._terminal], [], [], _AGAIN_SECONDS)[0]:
                self.until(text)
                return

    def end(self) -> int:
        """Type Ctrl-D after the next prompt; the exit code."""
        self.until("> ")
        self.type("\4")
        return self.wait()

    def wait(self) -> int:
        """The exit code."""
        with contextlib.suppress(EOFError):
            self.until("\0")
        return self._process.wait(60)


@contextlib.contextmanager
def typed(*arguments: str) -> Iterator[TypedCommand]:
    """Run a command of ours; it is dead at the end of the block."""
    inside, outside = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    command = [OUTRIDER, *arguments]
    try:
        process = subprocess.Popen(
            command, stdin=outside, stdout=outside, stderr=outside, env=environment, start_new_session=True
        )
    finally:
        os.close(outside)
    with process:
        try:
            yield TypedCommand(process, inside)
        finally:
            process.kill()
            os.close(inside)
