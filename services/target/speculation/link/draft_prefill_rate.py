"""DraftPrefillRate: how long a draft takes to prefill new tokens."""

from services.target.speculation.policy.policy_config import PolicyConfig


class DraftPrefillRate:
    """Measures stretches of time, in seconds: each begins when an idle draft is sent a sequence's tokens to read, and
    ends with the first prediction for the last of the sequences that joined meanwhile.
    """

    def __init__(self, config: PolicyConfig) -> None:
        self._config = config
        self._sequence_ids: set[int] = set()
        self._began = 0.0
        self._num_tokens = 0
        self._token_seconds: float | None = None
        self._num_measured = 0

    def seconds(self, num_tokens: int) -> float | None:
        """The expected time to read `num_tokens` tokens; None before the first measurement."""
        return None if self._token_seconds is None else num_tokens * self._token_seconds

    def remaining(self, sequence_id: int, now: float) -> float | None:
        """A sequence's share of the expected rest of the current stretch; 0 outside of it, None if it is unknown."""
        if sequence_id not in self._sequence_ids:
            return 0.0
        seconds = self.seconds(self._num_tokens)
        return None if seconds is None else max(0.0, seconds - (now - self._began)) / len(self._sequence_ids)

    def asked(self, sequence_id: int, num_tokens: int, now: float) -> None:
        """Begin or join a stretch: the draft must read `num_tokens` tokens of a sequence; unless it already does."""
        if sequence_id in self._sequence_ids:
            return
        if not self._sequence_ids:
            self._began, self._num_tokens = now, 0
        self._sequence_ids.add(sequence_id)
        self._num_tokens += num_tokens

    def answered(self, sequence_id: int, at: float) -> None:
        """End a sequence's part of the stretch: there is a prediction, so that it had been read by `at`."""
        if sequence_id not in self._sequence_ids:
            return
        self._sequence_ids.remove(sequence_id)
        if not self._sequence_ids:
            self._observe(max(0.0, at - self._began) / self._num_tokens)

    def gave_up(self, sequence_id: int) -> None:
        """Discard the stretch, since it is unknown how much of this sequence will have been read."""
        if sequence_id in self._sequence_ids:
            self._sequence_ids.clear()

    def missed(self, now: float) -> None:
        """Note that a wait for the current stretch has ended in vain: it takes longer than that."""
        if self._sequence_ids:
            least = self._config.wait_margin * (now - self._began) / self._num_tokens
            self._token_seconds = max(least, self._token_seconds or 0.0)

    def _observe(self, token_seconds: float) -> None:
        self._num_measured += 1
        before = token_seconds if self._num_measured == 1 or self._token_seconds is None else self._token_seconds
        weight = max(self._config.weight, 1 / self._num_measured)
        self._token_seconds = before + weight * (token_seconds - before)
