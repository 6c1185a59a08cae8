"""XmlCallReader: reads a tool call whose arguments are bare texts between XML marks."""

import re

from services.target.message.argument_types import ArgumentTypes, quoted
from services.target.message.call_writer import CallWriter
from services.target.message.text_marks import after_space
from services.target.message.xml_form import XmlForm
from services.target.message.xml_value import XmlValue

_MOST_HEADER = 256  # characters of the name, and of a key, with their marks
_MOST_BEGINNING = 16  # characters of a value that may show that it is a string


class XmlCallReader:
    """A CallReader; the call begins with its first argument. A value that must be a string is written as it comes."""

    def __init__(self, form: XmlForm, types: ArgumentTypes, calls: CallWriter) -> None:
        self._form = form
        self._types = types
        self._calls = calls
        self._name = ""
        self._key = ""  # of the current argument
        self._value: XmlValue | None = None  # of the current argument, while it is read
        self._written: int | None = None  # the end of the part of a string that was written
        self.position = 0
        """As in CallReader."""

    @property
    def kept(self) -> int:
        """As in CallReader."""
        return self.position if self._calls.is_open else 0

    def read(self, text: str) -> int | None:
        """As in CallReader."""
        form = self._form
        if not self._name:
            self.position = after_space(text, self.position)
            if form.other is not None and form.other.match(text, self.position, self.position + _MOST_HEADER):
                raise ValueError("something else stands in the call")
            if (found := self._find(text, form.name, form.before_name)) is None:
                return None
            self._name, self.position = found["name"], found.end()
        while True:
            if self._value is not None and not self._read_value(self._value, text):
                return None
            start = self.position = after_space(text, self.position)
            if text.startswith(form.end, start):
                self._write("}" if self._calls.is_open else "{}")
                self._calls.end()
                return start + len(form.end)
            if form.end.startswith(text[start : start + len(form.end)]):
                return None
            if (found := self._find(text, form.argument, form.before_key)) is None:
                return None
            self._key, self.position = found["key"], found.end()
            self._write(("{" if not self._calls.is_open else ", ") + quoted(self._key) + ": ")
            self._value = XmlValue(form, self.position)

    def _find(self, text: str, pattern: re.Pattern[str], first: str) -> re.Match[str] | None:
        """The match of a pattern that begins with a text, at the position; None if more text may bring one.

        Raises ValueError if no text can.
        """
        start = self.position
        found = pattern.match(text, start, start + _MOST_HEADER)
        head = text[start : start + len(first)]
        if found is None and (not first.startswith(head) or len(text) - start >= _MOST_HEADER):
            raise ValueError("something else stands in the call")
        return found

    def _read_value(self, value: XmlValue, text: str) -> bool:
        """Whether the value has ended in the text."""
        value.read(text)
        if self._written is None and value.after is None:
            beginning = text[value.start : min(value.end, value.start + _MOST_BEGINNING)]
            if beginning and self._types.is_string(self._name, self._key, beginning):
                self._write('"')
                self._written = value.start
        if self._written is not None:
            self._write(quoted(text[self._written : value.end])[1:-1])
            self._written = value.end
        if value.after is None:
            self.position = len(text)
            return False
        self._write('"' if self._written is not None else self._json_of(text[value.start : value.end]))
        self._value, self._written, self.position = None, None, value.after
        return True

    def _json_of(self, text: str) -> str:
        return self._types.value(self._name, self._key, text)

    def _write(self, arguments: str) -> None:
        if not self._calls.is_open:
            self._calls.begin(self._name)
        self._calls.add(arguments)
