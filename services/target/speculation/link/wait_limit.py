"""WaitLimit: limits how long a step waits for predictions that are under way."""

from services.target.speculation.link.draft_latency import DraftLatency
from services.target.speculation.policy.draft_config import DraftConfig


class WaitLimit:
    """The limit is a little more than the usual time for as many predictions. It is 0 if that is too long or if the
    draft has stopped answering, except for a longer try now and then, the later the longer the last try was.

    Times are in seconds on a monotonic clock; delays count from the commit, or the end of the pause, that requested the
    predictions.
    """

    def __init__(self, config: DraftConfig) -> None:
        self._config = config
        self._longest = config.longest_wait
        self.reset()

    def reset(self) -> None:
        """Forget all measurements, for a new link."""
        self._latency = DraftLatency(self._config)
        self._misses, self._missed_wait = 0, 0.0
        self._missed_at = self._retry_at = float("-inf")

    def expected(self, count: float, *, num_sequences: int = 1) -> float:
        """The usual time of `count` predictions while `num_sequences` sequences are predicted for at once; 0 if it is
        not known yet.
        """
        return self._latency.seconds(count) * self.slowdown(num_sequences)

    def slowdown(self, num_sequences: int) -> float:
        """How many times as long predictions usually take for `num_sequences` sequences at once."""
        return self._latency.slowdown(num_sequences)

    def seconds(self, now: float, count: int | None, *, num_sequences: int = 1) -> float:
        """How long to wait for `count` predictions for each of `num_sequences` sequences, requested at `now`.

        `count` is None if the draft has an unknown amount of other work first.
        """
        is_too_slow = self.expected(1) > self._longest
        if now <= self._retry_at and (is_too_slow or self._misses >= self._config.max_misses):
            return 0.0
        if is_too_slow or count is None or not self._latency.is_known:
            return self._longest
        usual = self.expected(count, num_sequences=num_sequences)
        return min(self._longest, max(usual, self._missed_wait) * self._config.wait_margin)

    def for_reading(self, seconds: float | None) -> float:
        """How much longer to wait for a draft that is expected to read for `seconds`, None if that is unknown."""
        return self._config.longest_reading if seconds is None else seconds * self._config.wait_margin

    def arrived(self, count: int, delay: float, *, num_sequences: int = 1) -> None:
        """Learn that `count` predictions for each of `num_sequences` sequences came `delay` seconds after a commit."""
        self._misses, self._missed_wait = 0, 0.0
        if delay <= self._longest < self.expected(1):  # answers have become faster: forget the old ones
            self._latency = DraftLatency(self._config)
        longest = self._config.longest_sample * self._longest
        self._latency.observe(count, min(delay, longest), num_sequences=num_sequences)

    def missed(self, asked_at: float, now: float) -> None:
        """Note that a wait for the answer to a request at `asked_at` has ended without one.

        A silence in which several waits end counts once.
        """
        if asked_at <= self._missed_at:
            return
        self._misses, self._missed_wait = self._misses + 1, now - asked_at
        self._missed_at, self._retry_at = now, now + self._config.retry_after * self._missed_wait
