"""Contender: whatever answers prompts, in one or several ways, and can so be measured beside others."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

from services.bench.answer import Answer


@dataclass(frozen=True, slots=True)
class Way:
    """How predictions are used."""

    name: str
    num_predictions: int | None  # in each pass: 0 for none, None for as many as the contender thinks best


PLAIN = Way("plain", 0)
AUTO = Way("auto", None)


def fixed(num_predictions: int) -> Way:
    """So many predictions in each pass, whatever that costs."""
    return Way(f"k = {num_predictions}", num_predictions)


class Contender(Protocol):
    """A target, with its draft if it has one, ready to answer."""

    @property
    def name(self) -> str:
        """Who it is, and how it holds its weights."""

    @property
    def ways(self) -> Seq[Way]:
        """What it can be asked, PLAIN first."""

    def answers(self, prompts: Seq[Seq[int]], way: Way, *, num_tokens: int) -> list[Answer]:
        """Continue the prompts greedily, all at once, each by just so many tokens, whatever they are."""


Answers = dict[str, dict[str, list[Answer]]]
"""Answers by contender and way, in the order of the prompts."""


def answers_in_turn(contenders: Seq[Contender], prompts: Seq[Seq[int]], *, num_tokens: int) -> Answers:
    """Ask every contender for every prompt in every way.

    Each prompt goes round them all before the next one, so that a bad minute of the machine strikes all alike. What
    goes before to warm up is not counted; a contender that thinks for itself has a whole answer to learn from.
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
