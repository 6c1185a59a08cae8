"""Histogram: counts of observed values, by buckets."""

from collections.abc import Sequence as Seq


class Histogram:
    """Counts of observed values by buckets.

    One thread adds each observed value to its bucket's count and to the sum; other threads may read, and may see a
    value in only one of the two.
    """

    def __init__(self, bounds: Seq[float]) -> None:
        """Each bound is the largest value of its bucket; one more bucket counts the values above the last bound."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0
