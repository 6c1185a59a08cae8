"""Terminal: an output stream of a command, coloured if it is a terminal."""

import os
import shutil
from typing import TextIO
from unicodedata import category

from outrider import Chunk, InvalidArgument, PredictionSource, Token

INTERRUPTED, UNREAD = 130, 141  # exit codes, as shells report a process that SIGINT or SIGPIPE ended
_LINE_AGAIN = "\r\033[K"
_BOLD, _DIM, _RED, _GREEN, _CYAN, _PLAIN = (f"\033[{code}m" for code in (1, 2, 31, 32, 36, 0))


class Terminal:
    """A text stream; each write is flushed, so that streamed text appears as it arrives.

    On a terminal the control characters of texts are replaced; a pipe gets texts unchanged.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_coloured = stream.isatty()

    @property
    def is_watched(self) -> bool:
        """Whether the stream is a terminal, on which a line can be overwritten."""
        return self._is_coloured

    def text(self, text: str) -> None:
        """Write text, without its control characters on a terminal."""
        self._write(_visible(text) if self._is_coloured else text)

    def chunk(self, chunk: Chunk) -> None:
        """Write a chunk's text, predicted tokens in colour; all plain if the text is not exactly that of its tokens."""
        if not self._is_coloured or "".join(token.text for token in chunk.tokens) != chunk.text:
            self.text(chunk.text)
        else:
            self._write("".join(map(_coloured, chunk.tokens)))

    def legend(self, predictor: str, *, lookup: bool = False) -> None:
        """Write the meaning of the colours of predicted text, if the stream has colours."""
        if self._is_coloured and predictor:
            self._line(_GREEN, f"green: what {predictor} had predicted")
        if self._is_coloured and lookup:
            self._line(_CYAN, "cyan: what was predicted from the text's own repetitions")

    def heading(self, text: str) -> None:
        """Write a line in bold."""
        self._line(_BOLD, text)

    def note(self, text: str) -> None:
        """Write a dimmed line."""
        self._line(_DIM, text)

    def progress(self, text: str) -> None:
        """On a terminal, write a line in the place of the last progress; an empty text erases it."""
        if self._is_coloured:
            width = shutil.get_terminal_size().columns - 1
            line = _visible(text).replace("\n", " ")[:width]
            self._write(f"{_LINE_AGAIN}{_DIM}{line}{_PLAIN}" if text else _LINE_AGAIN)

    def error(self, text: str) -> None:
        """Write a line that reports a failure, in red."""
        self._line(_RED, text)

    def refusal(self, error: InvalidArgument) -> None:
        """Write why a server refused a request: a line for each bad field, or else its message."""
        fields = [f"{violation.field} {violation.description}" for violation in error.violations]
        for line in fields or [str(error)]:
            self.error(line)

    def discard(self) -> None:
        """Discard buffered text: the reader has closed the pipe, and Python's final flush would report an error."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def _line(self, style: str, text: str) -> None:
        self._write(f"{style}{_visible(text)}{_PLAIN}\n" if self._is_coloured else f"{text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _coloured(token: Token) -> str:
    shown = _visible(token.text)
    if not token.predicted:
        return shown
    return f"{_CYAN if token.prediction_source is PredictionSource.LOOKUP else _GREEN}{shown}{_PLAIN}"


def _visible(text: str) -> str:
    return "".join("\N{REPLACEMENT CHARACTER}" if category(one) == "Cc" and one not in "\n\t" else one for one in text)
