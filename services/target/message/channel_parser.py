"""ChannelParser: parses an answer of messages in channels, as gpt-oss writes them (OpenAI's Harmony format)."""

import re
from collections.abc import Callable

from services.target.message.argument_types import ArgumentTypes
from services.target.message.call_writer import CallWriter
from services.target.message.deltas import Content, Delta, Reasoning
from services.target.message.json_calls import JsonCalls
from services.target.message.text_marks import first_mark, joined_deltas
from services.target.message.thought import PromptThought

_MESSAGE = "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>")
_CONTROL = "<|"
_HEADER_STARTS = ("<|start|>", "<|channel|>", "<|constrain|>", "to=")
_RECIPIENT = re.compile(r"to=(?:functions\.)?(?P<name>[\w.-]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(?P<name>\w+)")
_MOST_HEADER = 256


class ChannelParser:
    """Used like a MessageParser: all deltas so far are a function of the text so far.

    The channel `analysis` is reasoning, a message to a function is a call if there are tools, and all else is content.
    """

    def __init__(self, thought: PromptThought, types: ArgumentTypes) -> None:
        """`thought` is the state at the end of the prompt, `types` are those of the tools."""
        self._has_tools = bool(types.tools)
        self._text = ""  # not read yet
        self._deltas: list[Delta] = []
        self._calls = CallWriter(self._deltas)
        self._kind: type[Reasoning | Content] = Reasoning if thought is PromptThought.OPEN else Content
        self._call: JsonCalls | None = None  # in the current message
        self._searched = 0  # up to here there is no end of the call
        self._read: Callable[[bool], bool] = self._read_header if thought is PromptThought.NONE else self._read_body

    def feed(self, text: str) -> list[Delta]:
        """Take more text; returns the deltas that are certain with it."""
        self._text += text
        return self._proceed(is_end=False)

    def finish(self) -> list[Delta]:
        """Take the end of the text; returns the remaining deltas."""
        return self._proceed(is_end=True)

    def _proceed(self, *, is_end: bool) -> list[Delta]:
        while self._text and self._read(is_end):
            continue
        deltas = joined_deltas(self._deltas)
        self._deltas.clear()
        return deltas

    def _read_header(self, is_end: bool) -> bool:
        """What comes before a message: its role, its recipient and its channel."""
        position, mark = first_mark(self._text, (_MESSAGE,), is_end=is_end)
        header = self._text[:position]
        start = header.lstrip()
        may_be = any(one.startswith(start[: len(one)]) for one in _HEADER_STARTS) and len(header) <= _MOST_HEADER
        if may_be and mark is not None:
            self._begin(header)
            self._text = self._text[position + len(mark) :]
        elif may_be and not is_end:
            return False
        elif may_be and start.startswith(_CONTROL):  # the answer was cut in a header
            self._text = ""
        else:
            self._reject_header(header)
        return True

    def _reject_header(self, header: str) -> None:
        """Read the rest as content, because no header begins so."""
        space = len(header) - len(header.lstrip())
        first = next((one for one in _HEADER_STARTS if header.startswith(one, space)), "")
        if length := space + len(first):
            self._deltas.append(Content(self._text[:length]))
        self._text, self._kind, self._read = self._text[length:], Content, self._read_body

    def _begin(self, header: str) -> None:
        channel, recipient = _CHANNEL.search(header), _RECIPIENT.search(header)
        self._kind = Reasoning if channel is not None and channel["name"] == "analysis" else Content
        name = recipient["name"] if self._has_tools and recipient is not None else ""
        self._call = JsonCalls(0, name, self._calls) if name else None
        self._read = self._read_call if name else self._read_body

    def _read_body(self, is_end: bool) -> bool:
        """A message up to the mark that ends it."""
        position, mark = first_mark(self._text, _ENDS, is_end=is_end)
        if position:
            self._deltas.append(self._kind(self._text[:position]))
        self._text = self._text[position:]
        return self._pass(mark)

    def _read_call(self, is_end: bool) -> bool:
        """The arguments of a call up to their end, or to a mark that cuts them off; text that is no call is content."""
        assert self._call is not None
        position, mark = first_mark(self._text, _ENDS, is_end=is_end, start=self._searched)
        self._searched = position
        try:
            end = self._call.read(self._text[:position])
            if end is None and mark is None and not is_end:
                return False
        except ValueError:
            end = None
        end = self._call.kept if end is None else end
        self._calls.end()
        self._text, self._searched = self._text[end:], 0
        self._kind, self._read = Content, self._read_rest if end else self._read_body
        return True

    def _read_rest(self, is_end: bool) -> bool:  # noqa: ARG002 - white space has no meaning at the end either
        """White space after a call."""
        self._text = self._text.lstrip()
        if self._text:
            self._read = self._read_body
        return bool(self._text)

    def _pass(self, mark: str | None) -> bool:
        """Go to the header after a mark, which may begin with it."""
        if mark is None:
            return False
        if mark not in _HEADER_STARTS:
            self._text = self._text[len(mark) :]
        self._read = self._read_header
        return True
