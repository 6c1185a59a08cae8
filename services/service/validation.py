"""Violations: collects all invalid fields of a request, so that one answer reports all of them."""

import math
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from typing import TypeVar

from services.engine.range import BIAS, Range
from services.service.errors import InvalidRequestError, Violation

Entry = TypeVar("Entry")


class Violations:
    """The invalid fields found so far; of one list, only the first invalid entry is reported."""

    def __init__(self) -> None:
        self._found: list[Violation] = []

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._found)

    def extend(self, others: "Violations") -> None:
        """Add the violations of another collection."""
        self._found += others._found

    def add(self, field: str, problem: str, allowed: object) -> None:
        """Add an invalid field with its problem and its allowed values."""
        self._found.append(Violation(field, f"{problem}; allowed: {allowed}"))

    def check_number(self, field: str, value: float, allowed: Range) -> None:
        """Add a violation if a number is outside its range."""
        if not is_within(value, allowed):
            self.add(field, f"is {value:g}", allowed)

    def check_length(self, field: str, entries: Seq[object], maximum: int) -> None:
        """Add a violation if a list is too long."""
        if len(entries) > maximum:
            self.add(field, f"has {len(entries)} entries", f"at most {maximum}")

    def within(self, field: str, entries: Seq[Entry], maximum: int) -> Seq[Entry]:
        """Add a violation if a list is too long, and return its first `maximum` entries, which are to be checked."""
        self.check_length(field, entries, maximum)
        return entries[:maximum]

    def check_token_ids(self, field: str, token_ids: Iterable[int], vocab_size: int, suffix: str = "") -> None:
        """Add a violation for the first id outside the vocabulary; `suffix` is the path from an entry to its id."""
        self.check_entries(
            field,
            token_ids,
            lambda token_id: 0 <= token_id < vocab_size,
            lambda token_id: f"is {token_id}",
            f"0 to {vocab_size - 1}",
            suffix,
        )

    def check_entries(
        self,
        field: str,
        entries: Iterable[Entry],
        is_allowed: Callable[[Entry], bool],
        describe: Callable[[Entry], str],
        allowed: object,
        suffix: str = "",
    ) -> None:
        """Add a violation for the first entry of a list that is not allowed."""
        for index, entry in enumerate(entries):
            if not is_allowed(entry):
                self.add(f"{field}[{index}]{suffix}", describe(entry), allowed)
                return

    def check_sizes(self, field: str, strings: Iterable[str], most: int) -> None:
        """Add a violation for the first string that is empty or longer than `most` bytes."""
        self.check_entries(
            field,
            [len(string.encode()) for string in strings],
            lambda size: 0 < size <= most,
            lambda size: f"has {size} bytes",
            f"1 to {most} bytes",
        )

    def raise_if_any(self) -> None:
        """Raise InvalidRequestError with all violations, if there are any."""
        if self._found:
            raise InvalidRequestError(self._found)


def is_within(value: float, allowed: Range) -> bool:
    """Return whether a value is in a range."""
    return allowed.minimum <= value <= allowed.maximum and not (allowed.excludes_minimum and value == allowed.minimum)


def is_bias(value: float) -> bool:
    """Return whether a value is a valid logit_bias: a number in range, or minus infinity to forbid the token."""
    return is_within(value, BIAS) or value == -math.inf
