"""Parts of a message: the deltas of an answer, joined."""

from services.target.message.deltas import Arguments, CallStart, Delta, ToolCall
from services.target.message.text_marks import joined_deltas


def parts_of(deltas: list[Delta]) -> list[Delta]:
    """Without the parts of calls, which must add up to the calls that follow them."""
    parts: list[Delta] = []
    calls: list[list[str]] = []
    for delta in deltas:
        match delta:
            case CallStart(name):
                assert not calls
                calls.append([name, ""])
            case Arguments(text):
                calls[-1][1] += text
            case ToolCall(name, arguments):
                assert calls.pop() == [name, arguments]
                parts.append(delta)
            case _:
                assert not calls
                parts.append(delta)
    assert not calls
    return joined_deltas(parts)
