"""Backoff: how long to wait before a link is tried again."""

import random


class Backoff:
    """Each pause is twice the one before it, unless a link has outlasted that one: then all begins anew.

    So a draft that takes links and drops them at once is tried no more often than one that is not there.
    """

    def __init__(self, *, first: float) -> None:
        """`first` is in seconds, as all times here."""
        self._first = first
        self._seconds = first

    def after(self, link_seconds: float, *, longest: float) -> float:
        """The pause after a link that lasted so long, 0 for none; shortened by chance, so that targets do not meet."""
        has_lasted = link_seconds > self._seconds
        self._seconds = self._first if has_lasted else min(2 * self._seconds, longest)
        return self._seconds * random.uniform(0.5, 1.0)
