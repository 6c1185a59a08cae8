"""MarkedCallReader: reads a tool call as Gemma 4 writes it: keys are bare, and strings stand between marks."""

import re
from collections.abc import Callable

from services.target.message.argument_types import ArgumentTypes, quoted
from services.target.message.call_writer import CallWriter
from services.target.message.text_marks import after_space, first_mark

MOST_KEY = 1 << 10  # characters of a key that a grammar may write
_MOST_KEY_TEXT = MOST_KEY + 64  # with its marks, its colon and white space around them
_MOST_HEADER = 256  # characters of the name
_MOST_DEPTH = 64
_BEFORE_NAME = "call:"
_NAME = re.compile(r"call:\s*+(?P<name>[^\s{}:]++)\s*+\{")
_NO_NAME = re.compile(r"call:\s*+(?:\{|[^\s{}:]*+\s*+[^\s{])")
_BARE_KEY = re.compile(r'(?P<key>[^\s:{}\[\],<"][^:{}\[\],<"\n]*+):')
_NO_BARE_KEY = re.compile(r':|[^:{}\[\],<"\n]*+[{}\[\],<"\n]')
_AFTER_VALUE = re.compile(r"[,{}\[\]]")
_CLOSING = {"{": "}", "[": "]"}


class MarkedCallReader:
    """A CallReader of `call:NAME{KEY:VALUE,...}`, where KEY may stand between marks too. It is written as JSON, strings
    as they come.
    """

    def __init__(self, mark: str, types: ArgumentTypes, calls: CallWriter) -> None:
        """`mark` stands before and after a string."""
        self._mark = mark
        self._types = types
        self._calls = calls
        self._name = ""
        self._key = ""  # of the current argument
        self._open: list[str] = []  # the brackets of the objects and lists around the place
        self._separator = ""  # before the next key or item
        self._place = 0  # the end of the text that has been read
        self._searched = 0  # up to here, a bare value does not end
        self._read: Callable[[str], bool] = self._read_name
        self.position = 0
        """As in CallReader."""

    @property
    def kept(self) -> int:
        """As in CallReader."""
        return self.position if self._calls.is_open else 0

    def read(self, text: str) -> int | None:
        """As in CallReader."""
        try:
            while self._read(text):
                if not self._open:
                    self._calls.end()
                    return self._place
        except ValueError:
            self.position = self._place
            raise
        self.position = len(text)
        return None

    # Each of these reads part of the text, and returns whether more can be read now.

    def _read_name(self, text: str) -> bool:
        start = after_space(text, 0)
        found = _NAME.match(text, start, _MOST_HEADER)
        if found is None:
            may_be = _BEFORE_NAME.startswith(text[start : start + len(_BEFORE_NAME)])
            return _wait(may_be=may_be and len(text) < _MOST_HEADER and not _NO_NAME.match(text, start))
        self._name, self._place = found["name"], found.end() - 1
        self._calls.begin(self._name)
        return self._open_bracket("{")

    def _read_key(self, text: str) -> bool:
        """The key of an object and the colon after it, or the end of the object."""
        start = self._place = after_space(text, self._place)
        if text.startswith("}", start):
            return self._close()
        key, end = self._marked_key(text, start) if text.startswith(self._mark[0], start) else _bare_key(text, start)
        if end is None:
            return _wait(may_be=len(text) - start < _MOST_KEY_TEXT)
        if len(self._open) == 1:
            self._key = key
        self._calls.add(f"{self._separator}{quoted(key)}: ")
        self._place, self._read = end, self._read_value
        return True

    def _marked_key(self, text: str, start: int) -> tuple[str, int | None]:
        """A key between marks, and the end of the colon after it; None if more text must show it."""
        inner, limit = start + len(self._mark), start + _MOST_KEY_TEXT
        if not text.startswith(self._mark[: len(text) - start], start):
            raise ValueError("something else stands before a key")
        last = text.find(self._mark, inner, limit)
        colon = after_space(text, last + len(self._mark)) if last >= 0 else len(text)
        if colon < len(text) and (colon >= limit or text[colon] != ":"):
            raise ValueError("no colon follows a key")
        return text[inner:last], colon + 1 if colon < len(text) else None

    def _read_item(self, text: str) -> bool:
        """The beginning of a list's item, or the end of the list."""
        self._place = after_space(text, self._place)
        if self._place == len(text):
            return False
        if text.startswith("]", self._place):
            return self._close()
        self._calls.add(self._separator)
        self._read = self._read_value
        return True

    def _read_value(self, text: str) -> bool:
        """A value, or the beginning of one that has parts."""
        start = self._place = after_space(text, self._place)
        head = text[start : start + len(self._mark)]
        if head == self._mark:
            self._place += len(self._mark)
            self._calls.add('"')
            self._read = self._read_string
            return True
        if head[:1] in _CLOSING:
            return self._open_bracket(head[0])
        return not self._mark.startswith(head) and self._read_bare(text, start)

    def _read_bare(self, text: str, start: int) -> bool:
        """A value without marks up to the character after it."""
        end = _AFTER_VALUE.search(text, max(start, self._searched))
        if end is None:
            self._searched = len(text)
            return False
        bare = text[start : end.start()].strip()
        if not bare:
            raise ValueError("a value is missing")
        is_argument = len(self._open) == 1
        self._calls.add(self._types.unmarked(self._name, self._key if is_argument else None, bare))
        self._place, self._read = end.start(), self._read_after
        return True

    def _read_string(self, text: str) -> bool:
        """A string up to the mark after it."""
        end, mark = first_mark(text, (self._mark,), is_end=False, start=self._place)
        self._calls.add(quoted(text[self._place : end])[1:-1])
        self._place = end
        if mark is None:
            return False
        self._calls.add('"')
        self._place, self._read = end + len(mark), self._read_after
        return True

    def _read_after(self, text: str) -> bool:
        """What follows a value: a comma, or the end of what the value is in."""
        self._place = after_space(text, self._place)
        if self._place == len(text):
            return False
        if text[self._place] == _CLOSING[self._open[-1]]:
            return self._close()
        if text[self._place] != ",":
            raise ValueError("something else stands after a value")
        self._place += 1
        self._begin_part(", ")
        return True

    # Steps of the readers above

    def _open_bracket(self, bracket: str) -> bool:
        if len(self._open) == _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        self._open.append(bracket)
        self._place += 1
        self._calls.add(bracket)
        self._begin_part("")
        return True

    def _close(self) -> bool:
        self._calls.add(_CLOSING[self._open.pop()])
        self._place, self._read = self._place + 1, self._read_after
        return True

    def _begin_part(self, separator: str) -> None:
        self._separator = separator
        self._read = self._read_key if self._open[-1] == "{" else self._read_item


def is_bare_key(name: str) -> bool:
    """Whether a name is read as it is where no marks are around it."""
    found = _BARE_KEY.fullmatch(f"{name}:")
    return found is not None and found["key"].rstrip() == name


def _bare_key(text: str, start: int) -> tuple[str, int | None]:
    """A key without marks, and the end of the colon after it; None if more text must show it."""
    found = _BARE_KEY.match(text, start, start + _MOST_KEY_TEXT)
    if found is None and _NO_BARE_KEY.match(text, start):
        raise ValueError("something else stands before a value")
    return (found["key"].rstrip(), found.end()) if found else ("", None)


def _wait(*, may_be: bool) -> bool:
    """Wait for more text; raises ValueError if none can make a call of it."""
    if not may_be:
        raise ValueError("something else stands in the call")
    return False
