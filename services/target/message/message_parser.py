"""MessageParser: parses an answer's text into the parts of a message while it grows."""

import re
from collections.abc import Callable, Iterable

from services.target.message.call_text import read_calls
from services.target.message.deltas import Content, Delta, Reasoning
from services.target.message.json_scanner import JsonScanner
from services.target.message.syntax import MessageSyntax, ToolSyntax

_MOST_HEADER = 256  # characters between the mark that begins a call and its JSON
_JSON = re.compile(r"(?P<before>\s*)\[\s*[{\]]|(?P<brace>[^{]*)\{")
_NO_TOOLS = ToolSyntax(starts=(), call="")


class MessageParser:
    """All deltas so far are a pure function of the text so far, however it was cut: text is held back only as long as
    it may become a mark, the white space before one, or a call.

    White space next to a mark belongs to it. A text that turns out to be no call is content, up to the point where this
    was certain, so that each character is read only a few times.
    """

    def __init__(self, syntax: MessageSyntax, *, is_thinking: bool) -> None:
        """`is_thinking` is whether the prompt has already begun a thought."""
        self._tools = syntax.tools or _NO_TOOLS
        self._reasoning = syntax.reasoning
        self._text = ""  # not read yet
        self._deltas: list[Delta] = []
        self._space = ""  # white space at the end, which is emitted only if more text follows
        self._is_after_mark = is_thinking
        self._call_start = ""  # the mark that began the current call
        self._json: JsonScanner | None = None  # once the call's header is complete
        self._name: str | None = None  # of the tool, if the header has it
        self._read: Callable[[bool], bool] = self._read_thought if is_thinking else self._read_beginning

    def feed(self, text: str) -> list[Delta]:
        """Take more text; returns the deltas that are certain with it."""
        self._text += text
        return self._proceed(is_end=False)

    def finish(self) -> list[Delta]:
        """Take the end of the text; returns the remaining deltas."""
        deltas = self._proceed(is_end=True)
        if self._space and not self._is_after_mark:
            is_thinking = self._read == self._read_thought
            deltas.append(Reasoning(self._space) if is_thinking else Content(self._space))
            self._space = ""
        return deltas

    def _proceed(self, *, is_end: bool) -> list[Delta]:
        while self._text and self._read(is_end):
            continue
        deltas, self._deltas = self._deltas, []
        return _joined(deltas)

    # Each of these reads part of the text, and returns whether more can be read now.

    def _read_beginning(self, is_end: bool) -> bool:
        """White space, then a mark that is allowed only at the beginning."""
        text = self._text.lstrip()
        think = self._reasoning.start if self._reasoning else ""
        if think and text.startswith(think):
            self._pass_mark(self._text.index(think) + len(think), self._read_thought)
        elif not is_end and (not text or (think and think.startswith(text))):
            return False
        else:
            self._read = self._read_bare if self._tools.is_bare else self._read_content
        return True

    def _read_bare(self, is_end: bool) -> bool:
        """White space, then the JSON of a call, or otherwise content."""
        text = self._text.lstrip()
        if not text and not is_end:
            return False
        if text.startswith("{"):
            self._begin_call(self._text[: len(self._text) - len(text)], len(self._text) - len(text))
        else:
            self._read = self._read_content
        return True

    def _read_thought(self, is_end: bool) -> bool:
        assert self._reasoning is not None
        if self._emit_up_to(Reasoning, [self._reasoning.end], is_end) is None:
            return False
        self._pass_mark(len(self._reasoning.end), self._read_bare if self._tools.is_bare else self._read_content)
        return True

    def _read_content(self, is_end: bool) -> bool:
        start = self._emit_up_to(Content, self._tools.starts, is_end)
        if start is None:
            return False
        self._begin_call(start, len(start))
        return True

    def _read_between(self, is_end: bool) -> bool:
        """After a call: white space and its end marks, then another call, or content."""
        text = self._text.lstrip()
        skipped = len(self._text) - len(text)
        end = next((end for end in self._tools.ends if text.startswith(end)), None)
        if end is not None:
            self._text = text[len(end) :]
        elif not is_end and _may_become(text, (*self._tools.ends, *self._tools.starts)):
            return False
        elif self._tools.is_bare and text.startswith("{"):
            self._begin_call("", skipped)
        else:
            self._read = self._read_content
        return True

    def _read_call(self, is_end: bool) -> bool:
        """The header of a call, then its JSON up to the end."""
        end: int | None = None
        try:
            if self._json is None:
                self._json = self._find_json()
            end = self._json.end(self._text) if self._json else None
            if self._json is None or end is None:
                if is_end:
                    raise ValueError("it is not whole")
                return False
            self._deltas += read_calls(self._name, self._text[self._json.start : end])
        except ValueError:
            self._reject_call(end or (self._json.position if self._json else 0))
        else:
            self._pass_mark(end, self._read_between)
        return True

    # Steps of the readers above

    def _emit_up_to(self, kind: type[Reasoning | Content], marks: Iterable[str], is_end: bool) -> str | None:
        """Emit the text before the first mark, and return that mark; without one, emit all that cannot become one."""
        found = [(position, mark) for mark in marks if (position := self._text.find(mark)) >= 0]
        if found:
            position, mark = min(found)
            self._emit(kind, self._text[:position])
            self._text = self._text[position:]
            return mark
        held = 0 if is_end else _num_held(self._text, marks)
        position = len(self._text) - held
        self._emit(kind, self._text[:position])
        self._text = self._text[position:]
        return None

    def _emit(self, kind: type[Reasoning | Content], text: str) -> None:
        if self._is_after_mark:
            text = text.lstrip()
        if not text:
            return
        visible = (self._space + text).rstrip()
        self._space = (self._space + text)[len(visible) :]
        self._is_after_mark = False
        if visible:
            self._deltas.append(kind(visible))

    def _pass_mark(self, length: int, read: Callable[[bool], bool]) -> None:
        """Skip the next `length` characters and the white space around them."""
        self._text = self._text[length:]
        self._space, self._is_after_mark = "", True
        self._read = read

    def _begin_call(self, start: str, length: int) -> None:
        self._call_start, self._text = start, self._text[length:]
        self._json = None
        self._read = self._read_call

    def _find_json(self) -> JsonScanner | None:
        """A scanner of the call's JSON, which begins at the first brace, or at a bracket after nothing but white space.

        None while there is none. Raises ValueError if the header before the JSON does not match the syntax.
        """
        found = _JSON.match(self._text, 0, _MOST_HEADER)
        if found is None:
            if len(self._text) >= _MOST_HEADER:
                raise ValueError("it has no JSON")
            return None
        start = max(found.end("before"), found.end("brace"))
        header = self._tools.header.fullmatch(self._text, 0, start)
        if header is None:
            raise ValueError("something else stands before its JSON")
        self._name = header.groupdict().get("name")
        return JsonScanner(start)

    def _reject_call(self, length: int) -> None:
        """Emit text that looked like a call as content, as far as it was read."""
        text = self._call_start + self._text[:length]
        self._text = self._text[length:]
        self._emit(Content, text)
        self._read = self._read_content


def _num_held(text: str, marks: Iterable[str]) -> int:
    """The number of characters at the end of a text that a mark may begin with."""
    longest = max(map(len, marks), default=0)
    return next((n for n in range(min(longest - 1, len(text)), 0, -1) if _may_become(text[-n:], marks)), 0)


def _may_become(text: str, marks: Iterable[str]) -> bool:
    return any(mark.startswith(text) and mark != text for mark in marks)


def _joined(deltas: Iterable[Delta]) -> list[Delta]:
    """The deltas with consecutive ones of the same kind merged, except calls."""
    joined: list[Delta] = []
    for delta in deltas:
        match joined[-1:], delta:
            case [Reasoning(before)], Reasoning(text):
                joined[-1] = Reasoning(before + text)
            case [Content(before)], Content(text):
                joined[-1] = Content(before + text)
            case _:
                joined.append(delta)
    return joined
