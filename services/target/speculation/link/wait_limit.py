"""WaitLimit: how long a step may wait for predictions that are under way."""

from services.target.speculation.link.draft_latency import DraftLatency
from services.target.speculation.policy.draft_config import DraftConfig


class WaitLimit:
    """A little more than the draft usually takes for as many, and nothing where that is too long or where the draft has
    stopped answering, but for a longer try now and then: the later, the longer the one before was.

    Times are in seconds, of a clock that only goes forward; delays count from the commit, or the end of
    a pause, that was waited behind.
    """

    def __init__(self, config: DraftConfig) -> None:
        self._config = config
        self._longest = config.longest_wait
        self.reset()

    def reset(self) -> None:
        """Begin anew: the draft is another."""
        self._latency = DraftLatency(self._config)
        self._misses, self._missed_wait = 0, 0.0
        self._missed_at = self._retry_at = float("-inf")

    def expected(self, count: float, *, num_sequences: int = 1) -> float:
        """How long so many predictions usually take, where so many sequences are predicted for at once; 0 where that is
        not known yet.
        """
        return self._latency.seconds(count) * self.slowdown(num_sequences)

    def slowdown(self, num_sequences: int) -> float:
        """How many times as long it usually takes for so many sequences at once."""
        return self._latency.slowdown(num_sequences)

    def seconds(self, now: float, count: int | None, *, num_sequences: int = 1) -> float:
        """How long to wait for an answer of so many predictions to what is asked at this moment, for each of so many
        sequences; None where the draft has more to do first, nobody knows how much.
        """
        is_too_slow = self.expected(1) > self._longest
        if now <= self._retry_at and (is_too_slow or self._misses >= self._config.max_misses):
            return 0.0
        if is_too_slow or count is None or not self._latency.is_known:
            return self._longest
        usual = self.expected(count, num_sequences=num_sequences)
        return min(self._longest, max(usual, self._missed_wait) * self._config.wait_margin)

    def for_reading(self, seconds: float | None) -> float:
        """How much longer to wait for a draft that is expected to read for so long; None where nobody knows."""
        return self._config.longest_reading if seconds is None else seconds * self._config.wait_margin

    def arrived(self, count: int, delay: float, *, num_sequences: int = 1) -> None:
        """So many predictions for each of so many sequences were there so long after the commit."""
        self._misses, self._missed_wait = 0, 0.0
        if delay <= self._longest < self.expected(1):  # answers do not take longer, whatever they once took
            self._latency = DraftLatency(self._config)
        longest = self._config.longest_sample * self._longest
        self._latency.observe(count, min(delay, longest), num_sequences=num_sequences)

    def missed(self, asked_at: float, now: float) -> None:
        """A wait for an answer to what was asked then has ended without one; a silence that many hear counts once."""
        if asked_at <= self._missed_at:
            return
        self._misses, self._missed_wait = self._misses + 1, now - asked_at
        self._missed_at, self._retry_at = now, now + self._config.retry_after * self._missed_wait
