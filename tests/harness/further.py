"""Which sets of parameters only `make matrix` runs, and `make test` leaves out."""

from collections.abc import Iterable, Set
from collections.abc import Sequence as Seq
from typing import Any

import pytest


def further(*values: Any, id: str | None = None) -> Any:
    """One set of parameters that only `make matrix` runs."""
    return pytest.param(*values, id=id, marks=pytest.mark.exhaustive)


def all_with(values: Iterable[Any], *kept: Any) -> list[Any]:
    """All values; only `make matrix` runs those that are not `kept`."""
    return [value if value in kept else further(value) for value in values]


def covering_choice(combinations: Seq[Set[object]]) -> set[int]:
    """The indices of combinations that have all values among them.

    Each of them in turn is the one that has most values that are in none before it, the first of several.
    """
    missing, chosen = [*combinations], set()
    while any(missing):
        best = max(range(len(missing)), key=lambda index: len(missing[index]))
        chosen.add(best)
        found = missing[best]
        missing = [values - found for values in missing]
    return chosen


def key_of(value: object) -> object:
    """What equal values have in common."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
