"""Histogram: how often which values were observed."""

from collections.abc import Sequence as Seq


class Histogram:
    """Counts of values by buckets. Whoever observes one adds it to its bucket's count and to the sum, on one thread;
    any other may read, and may see it in one of both only.
    """

    def __init__(self, bounds: Seq[float]) -> None:
        """Each bound is the largest value of its bucket; one more holds what is above the last."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0
