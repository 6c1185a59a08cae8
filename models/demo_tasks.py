"""What the demo models' text is about: small tasks for Python functions and classes, put together from plain words.

A task is a pure function of its number, so the list has no end and can be taken up anywhere.
"""

import random
import string
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LIST_WORDS = ("lists", "things")  # the fields whose words name what a list is of


@dataclass(frozen=True)
class Task:
    """What a model is asked to write, and the words that were chosen for it."""

    question: str
    words: tuple[str, ...]

    @property
    def is_held_out(self) -> bool:
        """Whether nothing may be trained on that was written for it."""
        return not held_out_words().isdisjoint(self.words)


def task(number: int) -> Task:
    """The task of a number."""
    draw, tasks = random.Random(number), _tasks()
    (kind,) = draw.choices(tasks["kinds"], [kind["weight"] for kind in tasks["kinds"]])
    filled = template = draw.choice(kind["templates"])
    fields = [field for _, field, _, _ in string.Formatter().parse(template) if field]
    words = tuple(draw.choice(tasks["words"][field]) for field in fields)
    for field, word in zip(fields, words, strict=True):
        filled = filled.replace(f"{{{field}}}", word, 1)
    opening = kind["opening"].format(style=draw.choice(tasks["styles"]))
    return Task(f"Write a short Python {opening} {filled}. Answer with the code only.", words)


def list_words() -> list[list[str]]:
    """For each field with interchangeable plurals, the list of these."""
    return [_tasks()["words"][field] for field in LIST_WORDS]


def held_out_words() -> frozenset[str]:
    """Words of tasks that are never trained on."""
    return frozenset(_tasks()["held_out"])


@cache
def _tasks() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
