"""Backoff: how long to wait before a link is tried again."""

import random


class Backoff:
    """Each pause is twice the one before it, until a link has been of use.

    So a draft that takes links and drops them at once is tried no more often than one that is not there.
    """

    def __init__(self, *, first: float) -> None:
        """`first` is in seconds, as all times here."""
        self._first = first
        self._seconds = first

    def after(self, *, was_of_use: bool, longest: float) -> float:
        """The pause after a link, or a try for one; shortened by chance, so that targets do not meet."""
        self._seconds = self._first if was_of_use else min(2 * self._seconds, longest)
        return self._seconds * random.uniform(0.5, 1.0)
