"""MessageParser: an answer's text to the parts of a message, as it grows."""

import re
from collections.abc import Callable, Iterable

from services.target.message.call_text import read_calls
from services.target.message.deltas import Content, Delta, Reasoning
from services.target.message.json_scanner import JsonScanner
from services.target.message.syntax import MessageSyntax, ToolSyntax

_MOST_HEADER = 256  # characters between what begins a call and its JSON
_JSON = re.compile(r"(?P<before>\s*)\[\s*[{\]]|(?P<brace>[^{]*)\{")
_NO_TOOLS = ToolSyntax(starts=(), call="")


class MessageParser:
    """All deltas so far are a pure function of the text so far, however it was cut: text is held back only as long as
    it may become a mark, the white space before one, or a call.

    White space beside a mark belongs to it. What looks like a call but is none is content, up to where that is certain:
    each character is read a few times at most.
    """

    def __init__(self, syntax: MessageSyntax, *, is_thinking: bool) -> None:
        """`is_thinking` says that the prompt has begun a thought already."""
        self._tools = syntax.tools or _NO_TOOLS
        self._reasoning = syntax.reasoning
        self._text = ""  # that is not read yet
        self._deltas: list[Delta] = []
        self._space = ""  # behind what was said, which is part of it only if more is said
        self._is_behind_mark = is_thinking
        self._call_start = ""  # the mark that has begun the call that is being read
        self._json: JsonScanner | None = None  # once its header is whole
        self._name: str | None = None  # in that header
        self._read: Callable[[bool], bool] = self._read_thought if is_thinking else self._read_beginning

    def feed(self, text: str) -> list[Delta]:
        """What more of the text makes certain."""
        self._text += text
        return self._proceed(is_end=False)

    def finish(self) -> list[Delta]:
        """What the end of the text makes certain."""
        deltas = self._proceed(is_end=True)
        if self._space and not self._is_behind_mark:
            is_thinking = self._read == self._read_thought
            deltas.append(Reasoning(self._space) if is_thinking else Content(self._space))
            self._space = ""
        return deltas

    def _proceed(self, *, is_end: bool) -> list[Delta]:
        while self._text and self._read(is_end):
            continue
        deltas, self._deltas = self._deltas, []
        return _joined(deltas)

    # Each of these reads some of the text, and says whether there may be more to read.

    def _read_beginning(self, is_end: bool) -> bool:
        """White space, then what may stand at the beginning alone."""
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
        """White space, then a call's JSON, or else content."""
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
        if self._say_up_to(Reasoning, [self._reasoning.end], is_end) is None:
            return False
        self._pass_mark(len(self._reasoning.end), self._read_bare if self._tools.is_bare else self._read_content)
        return True

    def _read_content(self, is_end: bool) -> bool:
        start = self._say_up_to(Content, self._tools.starts, is_end)
        if start is None:
            return False
        self._begin_call(start, len(start))
        return True

    def _read_between(self, is_end: bool) -> bool:
        """Behind a call: white space and what ends it, then another one, or content."""
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
        """The header, then the JSON up to its end."""
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

    # What these are made of

    def _say_up_to(self, kind: type[Reasoning | Content], marks: Iterable[str], is_end: bool) -> str | None:
        """Say the text up to the first of the marks, and return that; without one, all that can be none."""
        found = [(position, mark) for mark in marks if (position := self._text.find(mark)) >= 0]
        if found:
            position, mark = min(found)
            self._say(kind, self._text[:position])
            self._text = self._text[position:]
            return mark
        held = 0 if is_end else _num_held(self._text, marks)
        position = len(self._text) - held
        self._say(kind, self._text[:position])
        self._text = self._text[position:]
        return None

    def _say(self, kind: type[Reasoning | Content], text: str) -> None:
        if self._is_behind_mark:
            text = text.lstrip()
        if not text:
            return
        said = (self._space + text).rstrip()
        self._space = (self._space + text)[len(said) :]
        self._is_behind_mark = False
        if said:
            self._deltas.append(kind(said))

    def _pass_mark(self, length: int, read: Callable[[bool], bool]) -> None:
        """Leave out the next characters and the white space beside them."""
        self._text = self._text[length:]
        self._space, self._is_behind_mark = "", True
        self._read = read

    def _begin_call(self, start: str, length: int) -> None:
        self._call_start, self._text = start, self._text[length:]
        self._json = None
        self._read = self._read_call

    def _find_json(self) -> JsonScanner | None:
        """What follows the JSON, from the first brace on, or from a bracket before which is nothing but white space.

        Raises ValueError where what stands before it is not the syntax's.
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
        """Say what has looked like a call, as far as it was read."""
        text = self._call_start + self._text[:length]
        self._text = self._text[length:]
        self._say(Content, text)
        self._read = self._read_content


def _num_held(text: str, marks: Iterable[str]) -> int:
    """Characters at the end that a mark begins with."""
    longest = max(map(len, marks), default=0)
    return next((n for n in range(min(longest - 1, len(text)), 0, -1) if _may_become(text[-n:], marks)), 0)


def _may_become(text: str, marks: Iterable[str]) -> bool:
    return any(mark.startswith(text) and mark != text for mark in marks)


def _joined(deltas: Iterable[Delta]) -> list[Delta]:
    """The same with one delta for several of a kind that follow one another, calls aside."""
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
