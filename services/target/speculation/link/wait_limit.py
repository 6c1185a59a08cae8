"""WaitLimit: the expected time of predictions, and how long a step with ALWAYS waits for them."""

from services.target.speculation.link.draft_latency import DraftLatency
from services.target.speculation.policy.policy_config import PolicyConfig


class WaitLimit:
    """With ALWAYS a step waits a little longer than the usual time for as many predictions. It does not wait if that is
    too long or if the draft has stopped answering, except for a try now and then, later after a longer one.

    Times are in seconds on a monotonic clock; delays count from the commit, or the end of the pause, that requested the
    predictions.
    """

    def __init__(self, config: PolicyConfig) -> None:
        self._config = config
        self.reset()

    def reset(self) -> None:
        """Forget all measurements, for a new link."""
        self.latency = DraftLatency(self._config)
        self._silence = 0.0  # the longest wait in vain since the last answer
        self._silent_at = self._retry_at = float("-inf")

    def expected(self, count: float, *, num_sequences: int = 1) -> float:
        """The usual time of `count` predictions while `num_sequences` sequences are predicted for at once; 0 if it is
        not known yet. After a wait in vain it is longer than that.
        """
        usual = self.latency.seconds(count) * self.latency.slowdown(num_sequences)
        return max(usual, self._config.wait_margin * self._silence)

    @property
    def is_silent(self) -> bool:
        """Whether the last wait was in vain."""
        return self._silence > 0

    @property
    def delay(self) -> float:
        """The part of the expected time that does not depend on the number of predictions."""
        return max(self.latency.seconds(0), self._config.wait_margin * self._silence)

    def seconds(self, now: float, count: int | None, *, num_sequences: int = 1) -> float:
        """How long to wait with ALWAYS for `count` predictions for each of `num_sequences` sequences, requested at
        `now`.

        `count` is None if the draft has an unknown amount of other work first.
        """
        longest = self._config.longest_wait
        if self.expected(1) > longest:
            return 0.0 if now <= self._retry_at else longest
        if count is None or not self.latency.is_known:
            return longest
        return min(longest, self.expected(count, num_sequences=num_sequences) * self._config.wait_margin)

    def arrived(self, count: int, delay: float, *, num_sequences: int = 1) -> None:
        """Learn that `count` predictions for each of `num_sequences` sequences came `delay` seconds after a commit."""
        if delay <= self._config.longest_wait < self.latency.seconds(1):  # answers have become faster
            self.latency = DraftLatency(self._config)
        self.latency.observe(count, delay, num_sequences=num_sequences)

    def heard(self) -> None:
        """Note that the draft has answered."""
        self._silence = 0.0

    def missed(self, asked_at: float, now: float) -> None:
        """Note that a wait for the answer to a request at `asked_at` has ended without one.

        A silence in which several waits end counts once.
        """
        if asked_at <= self._silent_at:
            return
        self._silence, self._silent_at = max(self._silence, now - asked_at), now
        self._retry_at = now + self._silence / self._config.loss_share
