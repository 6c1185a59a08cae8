"""Parts of a message: the deltas of an answer, joined."""

from services.target.message.deltas import Arguments, CallStart, Content, Delta, Reasoning, ToolCall


def joined(deltas: list[Delta]) -> list[Delta]:
    """With one delta for all that follow one of its kind."""
    whole: list[Delta] = []
    for delta in deltas:
        match whole[-1:], delta:
            case [Reasoning(before)], Reasoning(text):
                whole[-1] = Reasoning(before + text)
            case [Content(before)], Content(text):
                whole[-1] = Content(before + text)
            case [Arguments(before)], Arguments(text):
                whole[-1] = Arguments(before + text)
            case _:
                whole.append(delta)
    return whole


def parts_of(deltas: list[Delta]) -> list[Delta]:
    """Without the parts of calls, which must add up to the calls that follow them."""
    parts: list[Delta] = []
    calls: list[list[str]] = []
    for delta in deltas:
        match delta:
            case CallStart(name):
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
    return joined(parts)
