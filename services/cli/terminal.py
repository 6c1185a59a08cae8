"""Terminal: where a command writes, with colour only where somebody looks."""

import os
import shutil
from typing import TextIO

_LINE_AGAIN = "\r\033[K"
_BOLD, _DIM, _RED, _GREEN, _PLAIN = "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[0m"


class Terminal:
    """A text stream; each write is flushed, so that streamed text is seen as it comes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_coloured = stream.isatty()

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks, so that a line can be written anew."""
        return self._is_coloured

    def text(self, text: str) -> None:
        """Write text as it is."""
        self._stream.write(text)
        self._stream.flush()

    def predicted(self, text: str) -> None:
        """Write text that had been predicted."""
        self.text(f"{_GREEN}{text}{_PLAIN}" if self._is_coloured else text)

    def legend(self) -> None:
        """Write what the colour of predicted text means, where it has one."""
        if self._is_coloured:
            self._line(_GREEN, "green: what the draft had predicted")

    def heading(self, text: str) -> None:
        """Write a line that stands out."""
        self._line(_BOLD, text)

    def note(self, text: str) -> None:
        """Write a line that stands back."""
        self._line(_DIM, text)

    def progress(self, text: str) -> None:
        """Write a line in the place of the last progress, where somebody looks; no text takes that away."""
        if self._is_coloured:
            width = shutil.get_terminal_size().columns - 1
            self.text(f"{_LINE_AGAIN}{_DIM}{text[:width]}{_PLAIN}" if text else _LINE_AGAIN)

    def error(self, text: str) -> None:
        """Write a line that tells of a failure."""
        self._line(_RED, text)

    def discard(self) -> None:
        """Send what is still buffered nowhere: nobody reads any more, and Python's last flush would complain."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def _line(self, style: str, text: str) -> None:
        self.text(f"{style}{text}{_PLAIN}\n" if self._is_coloured else f"{text}\n")
