"""Spread: several measurements of one figure, as their median and quartiles."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """Half of the measurements lie between the quartiles `lower` and `upper`."""

    median: float
    lower: float
    upper: float
    count: int

    @classmethod
    def of(cls, values: Collection[float]) -> "Spread":
        """Return the spread of at least one measurement."""
        lower, median, upper = map(float, np.percentile([*values], [25, 50, 75]))
        return cls(median, lower, upper, len(values))

    def text(self, *, scale: float = 1.0, digits: int = 1) -> str:
        """Return text for a person to read: the median, followed by the quartiles."""
        median, lower, upper = (f"{value * scale:.{digits}f}" for value in (self.median, self.lower, self.upper))
        return f"{median:>9}  ({lower} … {upper})"
