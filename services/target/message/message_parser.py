"""MessageParser: parses an answer's text into the parts of a message while it grows."""

from collections.abc import Callable, Iterable

from services.target.message.argument_types import ArgumentTypes
from services.target.message.call_reader import CallReader, call_reader
from services.target.message.call_writer import CallWriter
from services.target.message.deltas import Content, Delta, Reasoning
from services.target.message.syntax import MessageSyntax, ToolSyntax
from services.target.message.text_marks import first_mark, joined_deltas, may_become

_NO_TOOLS = ToolSyntax(starts=(), call="")


class MessageParser:
    """All deltas so far are a pure function of the text so far, however it was cut: text is held back only as long as
    it may become a mark, the white space before one, or a call.

    White space next to a mark belongs to it. A call begins once it is certain to be one; where it is cut off or turns
    out to be malformed, it ends with the arguments so far. A text that turns out to be no call is content, up to the
    point where this was certain, so that each character is read only a few times. Without tools, all text is content.
    """

    def __init__(
        self, syntax: MessageSyntax, types: ArgumentTypes, *, is_thinking: bool, has_form: bool = False
    ) -> None:
        """`is_thinking` is whether the prompt has already begun a thought. With `has_form`, the answer is either calls
        or a text of a form, in which no call is searched for.
        """
        self._types = types
        self._tools = syntax.tools if syntax.tools and types.tools else _NO_TOOLS
        self._has_form = has_form
        self._reasoning = syntax.reasoning
        self._text = ""  # not read yet
        self._deltas: list[Delta] = []
        self._calls = CallWriter(self._deltas)
        self._space = ""  # white space at the end, which is emitted only if more text follows
        self._is_after_mark = is_thinking
        self._call_start = ""  # the mark that began the current call
        self._call: CallReader | None = None
        self._is_open = False  # whether another call may follow before the end mark
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
        while (self._text or self._call_start) and self._read(is_end):
            continue
        deltas = joined_deltas(self._deltas)
        self._deltas.clear()
        return deltas

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
            self._read = self._read_first
        return True

    def _read_first(self, is_end: bool) -> bool:
        """White space, then the JSON of a call if the family writes no mark before it, or otherwise content."""
        if not self._tools.is_bare and not self._has_form:
            self._read = self._read_content
            return True
        text = self._text.lstrip()
        skipped = len(self._text) - len(text)
        start = next((start for start in self._tools.starts if text.startswith(start)), "")
        if start or (text.startswith("{") and self._tools.is_bare):
            self._begin_call(self._text[:skipped], start, skipped + len(start))
        elif not is_end and may_become(text, self._tools.starts):
            return False
        else:
            self._read_no_call()
        return True

    def _read_thought(self, is_end: bool) -> bool:
        assert self._reasoning is not None
        if self._emit_up_to(Reasoning, [self._reasoning.end], is_end) is None:
            return False
        self._pass_mark(len(self._reasoning.end), self._read_first)
        return True

    def _read_content(self, is_end: bool) -> bool:
        start = self._emit_up_to(Content, self._tools.starts, is_end)
        if start is None:
            return False
        self._begin_call("", start, len(start))
        return True

    def _read_between(self, is_end: bool) -> bool:
        """After a call: white space and its end marks, then another call, or content."""
        text = self._text.lstrip()
        skipped = len(self._text) - len(text)
        end = next((end for end in self._tools.ends if text.startswith(end)), None)
        if end is not None:
            self._text, self._is_open = text[len(end) :], False
        elif may_become(text, (*self._tools.ends, *(self._tools.marks if is_end else self._tools.starts))):
            if not is_end:
                return False
            self._text = ""  # a mark that is cut off is no text either
        elif text.startswith("{") and (self._is_open or self._tools.is_bare):
            self._begin_call("", "", skipped)
        else:
            self._read = self._read_content
        return True

    def _read_call(self, is_end: bool) -> bool:
        """A call up to its end."""
        assert self._call is not None
        try:
            end = self._call.read(self._text)
        except ValueError:
            self._leave_call(self._call)
            return True
        if end is not None:
            self._end_call(end)
        elif is_end:
            self._leave_call(self._call)
        return end is not None or is_end

    # Steps of the readers above

    def _emit_up_to(self, kind: type[Reasoning | Content], marks: Iterable[str], is_end: bool) -> str | None:
        """Emit the text before the first mark, and return that mark; without one, emit all that cannot become one."""
        position, mark = first_mark(self._text, marks, is_end=is_end)
        self._emit(kind, self._text[:position])
        self._text = self._text[position:]
        return mark

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

    def _begin_call(self, space: str, start: str, length: int) -> None:
        self._call_start, self._text = space + start, self._text[length:]
        self._call = call_reader(self._tools, self._types, self._calls, is_marked=bool(start) or self._is_open)
        self._read = self._read_call

    def _end_call(self, length: int) -> None:
        """Pass a text that calls were made of."""
        self._calls.end()
        self._call_start = ""
        self._is_open = self._tools.has_several
        self._pass_mark(length, self._read_between)

    def _leave_call(self, call: CallReader) -> None:
        """Pass the text that calls were made of; without any, it is content up to the point where this was certain.

        After arguments that are malformed, no call follows before the end mark.
        """
        if call.kept:
            is_inside = self._calls.is_open
            self._end_call(call.kept)
            self._is_open = self._is_open and not is_inside
            return
        text = self._call_start + self._text[: call.position]
        self._call_start, self._text = "", self._text[call.position :]
        self._emit(Content, text)
        self._read_no_call()

    def _read_no_call(self) -> None:
        """Read the rest as content, in which no call is searched for if it is of a form."""
        if self._has_form:
            self._tools = _NO_TOOLS
        self._read = self._read_content
