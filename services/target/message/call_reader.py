"""CallReader: reads one tool call from a text that is still growing."""

import re
from collections.abc import Set
from typing import Protocol

from services.target.message.argument_types import ArgumentTypes
from services.target.message.call_text import read_calls
from services.target.message.deltas import ToolCall
from services.target.message.json_scanner import JsonScanner
from services.target.message.syntax import ToolSyntax
from services.target.message.text_marks import may_become
from services.target.message.xml_form import XmlForm

_MOST_HEADER = 256  # characters between the mark that begins a call and its arguments
_JSON = re.compile(r"(?P<before>\s*)\[\s*[{\]]|(?P<brace>[^{]*)\{")
_NAMED = re.compile(r'\{\s*"name"\s*:\s*"(?P<name>[^"\\]{0,64})"')
_SPACE = re.compile(r"\s*")


class CallReader(Protocol):
    """Reads the text after the mark that begins a call; each text must begin with the one before it."""

    @property
    def position(self) -> int:
        """The end of the text that may be a call up to here."""

    def end(self, text: str) -> int | None:
        """The end of the call, None if it is not complete; raises ValueError for a text that cannot be a call."""

    def calls(self, text: str) -> list[ToolCall]:
        """The calls in a complete text; raises ValueError if it is none."""


class JsonCallReader:
    """A call in JSON, after a header that may have the name."""

    def __init__(self, header: re.Pattern[str], tools: Set[str] | None) -> None:
        """The header must match the text before the JSON; its group `name`, if it has one, is the tool's.

        With `tools`, an object is a call only of one of these, and only with arguments.
        """
        self._header = header
        self._tools = tools
        self._name: str | None = None
        self._json: JsonScanner | None = None

    @property
    def position(self) -> int:
        """As in CallReader."""
        return self._json.position if self._json else 0

    def end(self, text: str) -> int | None:
        """As in CallReader."""
        if self._json is None:
            self._json = self._begin(text)
        if self._json is None:
            return None
        if self._tools is not None:
            self._check_name(text, self._json)
        return self._json.end(text)

    def calls(self, text: str) -> list[ToolCall]:
        """As in CallReader."""
        assert self._json is not None
        return read_calls(self._name, text[self._json.start :], tools=self._tools)

    def _check_name(self, text: str, scanner: JsonScanner) -> None:
        """Raise ValueError as soon as an object begins with a name that is no tool's, which need not end to be none."""
        found = _NAMED.match(text, scanner.start)
        if found is not None and found["name"] not in (self._tools or ()):
            scanner.position = found.end()
            raise ValueError("it is an object like any other")

    def _begin(self, text: str) -> JsonScanner | None:
        """A scanner of the JSON, which begins at the first brace, or at a bracket after nothing but white space.

        None while there is none. Raises ValueError if the header before the JSON does not match the syntax.
        """
        found = _JSON.match(text, 0, _MOST_HEADER)
        if found is None:
            if len(text) >= _MOST_HEADER:
                raise ValueError("it has no JSON")
            return None
        start = max(found.end("before"), found.end("brace"))
        header = self._header.fullmatch(text, 0, start)
        if header is None:
            raise ValueError("something else stands before its JSON")
        self._name = header.groupdict().get("name")
        return JsonScanner(start)


class XmlCallReader:
    """A call whose arguments are bare texts between XML marks."""

    def __init__(self, form: XmlForm, types: ArgumentTypes) -> None:
        self._form = form
        self._types = types
        self._name = ""
        self._pairs: list[tuple[str, str]] = []
        self._key: str | None = None  # of the argument whose value is read
        self._searched = 0  # up to here there is no end of the value
        self._after_mark = 0  # up to here white space follows the mark that may end the value
        self.position = 0
        """As in CallReader."""

    def end(self, text: str) -> int | None:
        """As in CallReader."""
        form = self._form
        if not self._name:
            self.position = _after_space(text, self.position)
            if form.other is not None and form.other.match(text, self.position, self.position + _MOST_HEADER):
                raise ValueError("something else stands in the call")
            if (found := self._find(text, form.name, form.before_name)) is None:
                return None
            self._name, self.position = found["name"], found.end()
        while True:
            if self._key is not None and not self._read_value(text):
                return None
            start = self.position = _after_space(text, self.position)
            if text.startswith(form.end, start):
                return start + len(form.end)
            if form.end.startswith(text[start : start + len(form.end)]):
                return None
            if (found := self._find(text, form.argument, form.before_key)) is None:
                return None
            self._key, self.position = found["key"], found.end()

    def calls(self, text: str) -> list[ToolCall]:  # noqa: ARG002 - it was read by `end`
        """As in CallReader."""
        return [ToolCall(self._name, self._types.arguments(self._name, self._pairs))]

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

    def _read_value(self, text: str) -> bool:
        assert self._key is not None
        mark = self._form.value_end
        self._searched = max(self._searched, self.position)
        while (end := text.find(mark, self._searched)) >= 0:
            is_end = self._is_end(text, end, end + len(mark))
            if is_end is None:
                self._searched = end
                return False
            if is_end:
                self._pairs.append((self._key, self._form.value(text[self.position : end])))
                self._key, self.position = None, end + len(mark)
                return True
            self._searched = end + 1
        self._searched = max(self._searched, len(text) - len(mark) + 1)
        return False

    def _is_end(self, text: str, start: int, end: int) -> bool | None:
        """Whether a mark ends the value rather than being part of it; None if more text must show it.

        It does after a newline, as it is written, or where the call continues after it.
        """
        if self._form.has_lines and text.startswith("\n", start - 1):
            return True
        self._after_mark = _after_space(text, max(self._after_mark, end))
        following = (self._form.before_key, self._form.end)
        if text.startswith(following, self._after_mark):
            return True
        return None if may_become(text[self._after_mark : self._after_mark + _MOST_HEADER], following) else False


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def call_reader(tools: ToolSyntax, types: ArgumentTypes, *, is_marked: bool) -> CallReader:
    """A reader of the next call in a syntax; without a mark before it, other JSON may stand there."""
    if tools.xml is not None:
        return XmlCallReader(tools.xml, types)
    return JsonCallReader(tools.header, None if is_marked else types.tools)
