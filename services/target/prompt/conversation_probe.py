"""ConversationProbe: shows which texts of a conversation a template leaves out, by unique words in their places."""

import re
from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

from services.target.prompt.template_forms import Message

_REASONING = ("reasoning_content", "thinking")
_SYSTEM = ("system", "developer")
_MOST_ALIKE = 2  # turns of one form
_WORD = re.compile(r"Probe\d{6}Word")


class Defects(NamedTuple):
    """The number of texts that are not in a prompt, and of those that are elsewhere, or there again."""

    lost: int
    misplaced: int


class ConversationProbe:
    """A conversation of the same form, in which each text and each call's arguments are a word of their own.

    It has two turns of each form, and the last one, so that it is short where a conversation is long. Reasoning has no
    words, since templates leave out that of earlier turns. Calls and their results may alternate, and a system message
    that comes first may be anywhere.
    """

    def __init__(self, messages: list[Message]) -> None:
        self._places: dict[str, int | None] = {}
        self._place = 0
        self._is_block = False  # whether the last message has calls, or is a result
        self.messages = [self._probe(message, is_first=not index) for index, message in enumerate(_typical(messages))]
        """The messages of the same form."""

    def defects(self, prompt: str) -> Defects:
        """Return what is wrong with the prompt of these messages."""
        found = _WORD.findall(prompt)
        lost = len(self._places.keys() - {*found})
        places = [place for word in found if (place := self._places.get(word)) is not None]
        inverted = sum(place < before for before, place in pairwise(places))
        return Defects(lost, inverted + len(found) - len({*found}))

    def _probe(self, message: Message, *, is_first: bool) -> Message:
        is_result = message["role"] == "tool"
        self._place += not (is_result and self._is_block)
        self._is_block = is_result or bool(message.get("tool_calls"))
        place = None if is_first and message["role"] in _SYSTEM else self._place
        probe = {**message, "content": self._content(message.get("content"), place)}
        probe |= {name: "A thought." for name in _REASONING if message.get(name)}
        if calls := message.get("tool_calls"):
            self._place += 1
            probe["tool_calls"] = [self._call(call) for call in calls]
        return probe

    def _content(self, content: str | list[Any] | None, place: int | None) -> str | list[Any] | None:
        if isinstance(content, list):
            return [{**part, "text": self._content(part["text"], place)} for part in content]
        return self._word(place) if content and content.strip() else content

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        return {**call, "function": {**call["function"], "arguments": {"argument": self._word(self._place)}}}

    def _word(self, place: int | None) -> str:
        word = f"Probe{len(self._places):06}Word"
        self._places[word] = place
        return word


def _typical(messages: list[Message]) -> list[Message]:
    """The messages without those turns whose form two earlier ones have, except the last one."""
    turns: list[list[Message]] = []
    for message in messages:
        if message["role"] == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    forms = [tuple(map(_form, turn)) for turn in turns]
    counts: Counter[tuple[object, ...]] = Counter()
    kept: list[Message] = []
    for index, (form, turn) in enumerate(zip(forms, turns, strict=True)):
        counts[form] += 1
        if counts[form] <= _MOST_ALIKE or index == len(turns) - 1:
            kept += turn
    return kept


def _form(message: Message) -> tuple[object, ...]:
    content, calls = message.get("content"), message.get("tool_calls") or ()
    is_thinking = any(message.get(name) for name in _REASONING)
    return message["role"], len(content) if isinstance(content, list) else bool(content), len(calls), is_thinking
