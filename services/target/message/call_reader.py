"""CallReader: reads one tool call from a text that is still growing."""

import re
from collections.abc import Set
from typing import Protocol

from services.target.message.argument_types import ArgumentTypes
from services.target.message.call_writer import CallWriter
from services.target.message.json_calls import JsonCalls
from services.target.message.marked_call_reader import MarkedCallReader
from services.target.message.syntax import ToolSyntax
from services.target.message.xml_call_reader import XmlCallReader

_MOST_HEADER = 256  # characters between the mark that begins a call and its arguments
_JSON = re.compile(r"(?P<before>\s*)\[\s*[{\]]|(?P<brace>[^{]*)\{")


class CallReader(Protocol):
    """Reads the text after the mark that begins a call, and writes the call as it comes."""

    @property
    def position(self) -> int:
        """The end of the text that may be a call up to here."""

    @property
    def kept(self) -> int:
        """The end of the text that calls have been made of."""

    def read(self, text: str) -> int | None:
        """The end of the call, None if it is not complete; the text must begin with that of the previous call.

        Raises ValueError for a text that cannot be a call, or cannot continue the one that was begun.
        """


class JsonCallReader:
    """A call in JSON, or a list of them, after a header that may have the name."""

    def __init__(self, header: re.Pattern[str], calls: CallWriter, tools: Set[str] | None) -> None:
        """The header must match the text before the JSON; its group `name`, if it has one, is the tool's.

        With `tools`, an object is a call only of one of these, and only with arguments.
        """
        self._header = header
        self._calls = calls
        self._tools = tools
        self._json: JsonCalls | None = None

    @property
    def position(self) -> int:
        """As in CallReader."""
        return self._json.position if self._json else 0

    @property
    def kept(self) -> int:
        """As in CallReader."""
        return self._json.kept if self._json else 0

    def read(self, text: str) -> int | None:
        """As in CallReader."""
        if self._json is None:
            self._json = self._begin(text)
        return self._json.read(text) if self._json else None

    def _begin(self, text: str) -> JsonCalls | None:
        """The reader of the JSON, which begins at the first brace, or at a bracket after nothing but white space.

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
        return JsonCalls(start, header.groupdict().get("name"), self._calls, self._tools)


def call_reader(tools: ToolSyntax, types: ArgumentTypes, calls: CallWriter, *, is_marked: bool) -> CallReader:
    """A reader of the next call in a syntax; without a mark before it, other JSON may stand there."""
    if tools.xml is not None:
        return XmlCallReader(tools.xml, types, calls)
    if tools.string_mark:
        return MarkedCallReader(tools.string_mark, types, calls)
    return JsonCallReader(tools.header, calls, None if is_marked else types.tools)
