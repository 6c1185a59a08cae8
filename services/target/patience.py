"""Patience: how long a step may wait for predictions that are under way."""


class Patience:
    """Follows the draft's delay: a little more than it usually takes, and nothing where that is too long or where the
    draft has stopped answering.

    Times are in seconds, delays from the commit, or the end of a pause, that left a sequence without predictions.
    """

    _MARGIN = 1.5
    _WEIGHT = 0.1  # of a new observation
    _LARGEST = 4.0  # observation, in longest waits: one long silence says little about the next delay
    _MISSES = 3  # in a row, until nobody waits any more

    def __init__(self, *, longest: float) -> None:
        self._longest = longest
        self._delay = longest / self._MARGIN
        self._misses = 0

    @property
    def seconds(self) -> float:
        """How long to wait now."""
        if self._misses >= self._MISSES or self._delay > self._longest:
            return 0.0
        return min(self._longest, self._delay * self._MARGIN)

    def arrived(self, delay: float) -> None:
        """Predictions came after this time, waited for or not."""
        self._misses = 0
        self._delay += self._WEIGHT * (min(delay, self._LARGEST * self._longest) - self._delay)

    def missed(self) -> None:
        """A wait has ended without them."""
        self._misses += 1
        self._delay = min(self._longest, self._delay * self._MARGIN)
