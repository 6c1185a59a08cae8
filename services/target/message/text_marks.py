"""Text marks: finds marks in a text that is still growing, and joins the parts between them."""

import re
from collections.abc import Iterable

from services.target.message.deltas import Arguments, Content, Delta, Reasoning

_SPACE = re.compile(r"\s*")


def first_mark(text: str, marks: Iterable[str], *, is_end: bool, start: int = 0) -> tuple[int, str | None]:
    """The position of the first mark and the mark; without one, the length of the text that cannot become one.

    The search begins at `start`.
    """
    found = [(position, mark) for mark in marks if (position := text.find(mark, start)) >= 0]
    if found:
        return min(found)
    return len(text) - (0 if is_end else _num_held(text, marks)), None


def may_become(text: str, marks: Iterable[str]) -> bool:
    """Whether more text may make a mark of this one."""
    return any(mark.startswith(text) and mark != text for mark in marks)


def after_space(text: str, position: int) -> int:
    """The end of the white space at a position."""
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def joined_deltas(deltas: Iterable[Delta]) -> list[Delta]:
    """The deltas with consecutive texts of the same kind merged."""
    joined: list[Delta] = []
    for delta in deltas:
        match joined[-1:], delta:
            case [Reasoning(before)], Reasoning(text):
                joined[-1] = Reasoning(before + text)
            case [Content(before)], Content(text):
                joined[-1] = Content(before + text)
            case [Arguments(before)], Arguments(text):
                joined[-1] = Arguments(before + text)
            case _:
                joined.append(delta)
    return joined


def _num_held(text: str, marks: Iterable[str]) -> int:
    """The number of characters at the end of a text that a mark may begin with."""
    longest = max(map(len, marks), default=0)
    return next((n for n in range(min(longest - 1, len(text)), 0, -1) if may_become(text[-n:], marks)), 0)
