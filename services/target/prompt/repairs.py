"""Repairs: changes to messages that a template refuses or leaves out, such as ids, or roles that do not alternate."""

import hashlib
import json
import re
import string
from collections.abc import Callable, Iterable
from typing import Any

from services.target.prompt.template_forms import Message

Repair = Callable[[list[Message]], list[Message]]

_SHORT_ID = re.compile("[A-Za-z0-9]{9}")  # the only ids that Mistral's templates accept
_DIGITS = string.digits + string.ascii_letters
_PARAGRAPH = "\n\n"
_ROLES = {**{role: role for role in ("system", "user", "assistant", "tool")}, "developer": "system"}
_REASONING = ("reasoning_content", "thinking")  # the names that templates read


def merge_turns(messages: list[Message]) -> list[Message]:
    """Messages whose ids have nine letters or digits, whose roles alternate, and that have no system message but first.

    A user's message after a tool's result becomes part of the result.
    """
    first, rest = messages[:1], [_as_user(message) for message in messages[1:]]
    return _merged(_with_short_ids(first + rest))


def split_calls(messages: list[Message]) -> list[Message]:
    """The same with one call in a message, followed by its result."""
    split: list[Message] = []
    waiting: list[Message] = []  # calls whose results have not come yet
    for message in merge_turns(messages):
        if message["role"] != "tool":
            split += waiting
            waiting = _each_call(message)
            continue
        name = message.get("tool_call_id")
        if call := next((one for one in waiting if one.get("tool_calls", [{}])[0].get("id") == name), None):
            waiting.remove(call)
            split.append(call)
        split.append(message)
    return split + waiting


def merge_system(messages: list[Message]) -> list[Message]:
    """The same as `merge_turns` without any system message: the first one becomes part of the user's first message."""
    return merge_turns([_as_user(message) for message in messages])


def with_known_roles(messages: list[Message]) -> list[Message]:
    """The messages with a developer's as system messages, and those of unknown roles as the user's."""
    return [{**message, "role": _ROLES.get(message["role"], "user")} for message in messages]


def unchanged(messages: list[Message]) -> list[Message]:
    """The messages as they are."""
    return messages


def texts_apart(messages: list[Message]) -> list[Message]:
    """The messages with a text beside calls in a message of its own, before that of the calls."""
    return [part for message in messages for part in _apart(message)]


def texts_between_turns(messages: list[Message]) -> list[Message]:
    """The same with an empty message of the user between two texts of the assistant, for templates that count turns."""
    filled: list[Message] = []
    is_answered = False
    for message in texts_apart(messages):
        is_answer = message["role"] == "assistant" and not message.get("tool_calls")
        if is_answer and is_answered:
            filled.append({"role": "user", "content": ""})
        is_answered = is_answer or (is_answered and message["role"] != "user")
        filled.append(message)
    return filled


def calls_as_texts(messages: list[Message]) -> list[Message]:
    """The messages with calls as JSON in the assistant's text, for templates that leave out calls."""
    return [_with_written_calls(message) for message in messages]


def as_texts(messages: list[Message]) -> list[Message]:
    """The same with results as messages of the user, for templates without a role for them."""
    return [_as_users_text(message) for message in calls_as_texts(messages)]


def _after(first: Repair, second: Repair) -> Repair:
    return lambda messages: second(first(messages))


_TURNS: tuple[Repair, ...] = (unchanged, with_known_roles, merge_turns, split_calls, merge_system)
REPAIRS: tuple[Repair, ...] = (
    *_TURNS,
    *(_after(repair, texts_apart) for repair in _TURNS),
    *(_after(repair, texts_between_turns) for repair in _TURNS),
    *(_after(calls_as_texts, repair) for repair in (unchanged, merge_turns)),
    *(_after(as_texts, repair) for repair in (unchanged, merge_turns, merge_system)),
)
"""The repairs to try in this order, the smallest change first."""


def _apart(message: Message) -> list[Message]:
    if not message.get("tool_calls") or not message.get("content"):
        return [message]
    text = {name: value for name, value in message.items() if name not in ("tool_calls", *_REASONING)}
    return [text, {**message, "content": ""}]


def _as_users_text(message: Message) -> Message:
    return {"role": "user", "content": message.get("content")} if message["role"] == "tool" else message


def _with_written_calls(message: Message) -> Message:
    if not (calls := message.get("tool_calls")):
        return message
    texts = "\n".join(_written(call["function"]) for call in calls)
    others = {name: value for name, value in message.items() if name != "tool_calls"}
    return {**others, "content": _joined(message.get("content"), texts)}


def _written(function: dict[str, Any]) -> str:
    arguments = function["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'{{"name": {json.dumps(function["name"], ensure_ascii=False)}, "arguments": {text}}}'


def _each_call(message: Message) -> list[Message]:
    calls = message.get("tool_calls")
    if not calls:
        return [message]
    others = {name: value for name, value in message.items() if name not in _REASONING}
    first, *rest = calls
    return [{**message, "tool_calls": [first]}, *({**others, "content": "", "tool_calls": [call]} for call in rest)]


def _as_user(message: Message) -> Message:
    return message if message["role"] in ("user", "assistant", "tool") else {**message, "role": "user"}


def _merged(messages: Iterable[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in messages:
        last, role = merged[-1] if merged else {"role": ""}, message["role"]
        if role in ("user", "assistant") and role == last["role"]:
            calls = [*last.get("tool_calls", ()), *message.get("tool_calls", ())]
            content = _joined(last["content"], message["content"])
            thoughts = {name: _joined(last.get(name), message.get(name)) for name in _REASONING}
            merged[-1] = {**last, **message, "content": content, **({"tool_calls": calls} if calls else {})}
            merged[-1] |= {name: text for name, text in thoughts.items() if text}
        elif role == "user" and last["role"] == "tool":
            merged[-1] = {**last, "content": _joined(last["content"], message["content"])}
        else:
            merged.append(message)
    return merged


def _joined(first: str | list[Any] | None, second: str | list[Any] | None) -> str | list[Any] | None:
    """Two contents as one text."""
    if not first or not second:
        return first or second
    return _text(first) + _PARAGRAPH + _text(second)


def _text(content: str | list[Any]) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _with_short_ids(messages: Iterable[Message]) -> list[Message]:
    """The messages with an id of nine letters or digits for each call and its result, always the same for the same id.

    A call without an id gets one by its position; a result without one is that of the oldest call without a result.
    """
    changed: list[Message] = []
    unanswered: dict[str, None] = {}  # ids, in the order of the calls
    count = 0
    for message in messages:
        fields: Message = {}
        if calls := message.get("tool_calls"):
            calls = [{**call, "id": _short(call.get("id") or str(count + index))} for index, call in enumerate(calls)]
            count += len(calls)
            unanswered |= dict.fromkeys(call["id"] for call in calls)
            fields = {"tool_calls": calls}
        if message["role"] == "tool":
            given = message.get("tool_call_id")
            name = _short(given) if given else next(iter(unanswered), _short(""))
            unanswered.pop(name, None)
            fields["tool_call_id"] = name
        changed.append({**message, **fields})
    return changed


def _short(name: str) -> str:
    if _SHORT_ID.fullmatch(name):
        return name
    digits, number = "", int.from_bytes(hashlib.sha256(name.encode(errors="replace")).digest())
    for _ in range(9):
        number, digit = divmod(number, len(_DIGITS))
        digits += _DIGITS[digit]
    return digits
