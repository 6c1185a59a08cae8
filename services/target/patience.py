"""Patience: how long a step may wait for predictions that are under way."""


class Patience:
    """Follows the draft's delay: a little more than it usually takes, and nothing where that is too long or where the
    draft has stopped answering, but for one try after a long while.

    Times are in seconds, of a clock that only goes forward; delays count from the commit, or the end of
    a pause, that was waited behind.
    """

    _MARGIN = 1.5
    _WEIGHT = 0.1  # of a new observation
    _LARGEST = 4.0  # observation, in longest waits: one long silence says little about the next delay
    _MISSES = 3  # in a row, until nobody waits any more
    _REST = 200.0  # longest waits from then to the next try, which so costs half a percent of the time

    def __init__(self, *, longest: float) -> None:
        self._longest = longest
        self.reset()

    def reset(self) -> None:
        """Begin anew: the draft is another."""
        self._delay = self._longest / self._MARGIN
        self._misses = 0
        self._missed_at = float("-inf")

    def seconds(self, now: float) -> float:
        """How long to wait for an answer to what is asked at this moment."""
        if self._misses >= self._MISSES or self._delay > self._longest:
            return self._longest if now > self._missed_at + self._REST * self._longest else 0.0
        return min(self._longest, self._delay * self._MARGIN)

    def arrived(self, delay: float) -> None:
        """Predictions came so long after the commit."""
        self._misses = 0
        if delay <= self._longest:  # then answers do not take longer, whatever they once took
            self._delay = min(self._delay, self._longest)
        self._delay += self._WEIGHT * (min(delay, self._LARGEST * self._longest) - self._delay)

    def missed(self, asked_at: float, now: float) -> None:
        """A wait for an answer to what was asked then has ended without one; a silence that many hear counts once."""
        if asked_at <= self._missed_at:
            return
        self._missed_at = now
        self._misses += 1
        self._delay = max(self._delay, min(self._longest, self._delay * self._MARGIN))
