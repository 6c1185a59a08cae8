"""Contender: an engine that answers prompts in one or several ways, so that it can be measured beside others."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

from services.bench.answer import Answer


@dataclass(frozen=True, slots=True)
class Way:
    """A way of using predictions: none, a fixed number in each pass, or as many as the contender decides."""

    name: str
    num_predictions: int | None  # in each pass; 0: none; None: as the contender decides


PLAIN = Way("plain", 0)
AUTO = Way("auto", None)


def fixed(num_predictions: int) -> Way:
    """Return the way that makes exactly this many predictions in each pass."""
    return Way(f"k = {num_predictions}", num_predictions)


class Contender(Protocol):
    """A target, with its draft if it has one, ready to answer."""

    @property
    def name(self) -> str:
        """The engine, and the format of its weights."""

    @property
    def ways(self) -> Seq[Way]:
        """The ways in which it can answer, PLAIN first."""

    def answers(self, prompts: Seq[Seq[int]], way: Way, *, num_tokens: int) -> list[Answer]:
        """Continue all prompts concurrently and greedily, each by exactly `num_tokens` tokens, past any end of text."""


Answers = dict[str, dict[str, list[Answer]]]
"""Answers by contender and way, in the order of the prompts."""


def answers_in_turn(contenders: Seq[Contender], prompts: Seq[Seq[int]], *, num_tokens: int) -> Answers:
    """Send every prompt to every contender in every way.

    All contenders answer one prompt before the next is sent, so that a slow minute of the machine affects them equally.
    The answers that warm up are not counted; with AUTO it is a whole answer, for the contender to adapt.
    """
    answers: Answers = {each.name: {way.name: [] for way in each.ways} for each in contenders}
    for contender, way in _all_ways(contenders):
        contender.answers(prompts[:1], way, num_tokens=num_tokens if way == AUTO else -(-num_tokens // 4))
    for prompt in prompts:
        for contender, way in _all_ways(contenders):
            answers[contender.name][way.name] += contender.answers([prompt], way, num_tokens=num_tokens)
    return answers


def _all_ways(contenders: Seq[Contender]) -> Iterator[tuple[Contender, Way]]:
    for contender in contenders:
        for way in contender.ways:
            yield contender, way
