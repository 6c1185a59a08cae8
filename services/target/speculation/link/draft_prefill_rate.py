"""DraftPrefillRate: how long a draft takes for tokens that it does not know yet."""

from services.target.speculation.policy.draft_config import DraftConfig


class DraftPrefillRate:
    """Measures stretches of time, in seconds: each begins when a draft that has nothing to read is asked to, for one
    sequence, and ends with the first prediction for the last of those that joined it meanwhile.
    """

    def __init__(self, config: DraftConfig) -> None:
        self._config = config
        self._sequence_ids: set[int] = set()
        self._began = 0.0
        self._num_tokens = 0
        self._token_seconds: float | None = None

    def seconds(self, num_tokens: int) -> float | None:
        """How long it takes to read so many; None while no stretch was measured."""
        return None if self._token_seconds is None else num_tokens * self._token_seconds

    @property
    def expected(self) -> float | None:
        """How long the stretch that has begun takes, 0 where none has; None while no stretch was measured."""
        return self.seconds(self._num_tokens if self._sequence_ids else 0)

    def asked(self, sequence_id: int, num_tokens: int, now: float) -> None:
        """The draft has to read so many tokens of a sequence, unless it is doing so."""
        if sequence_id in self._sequence_ids:
            return
        if not self._sequence_ids:
            self._began, self._num_tokens = now, 0
        self._sequence_ids.add(sequence_id)
        self._num_tokens += num_tokens

    def answered(self, sequence_id: int, at: float) -> None:
        """It had read the sequence then, for there is a prediction."""
        if sequence_id not in self._sequence_ids:
            return
        self._sequence_ids.remove(sequence_id)
        if not self._sequence_ids:
            self._observe(max(0.0, at - self._began) / self._num_tokens)

    def gave_up(self, sequence_id: int) -> None:
        """Nobody knows how much of a sequence will have been read: the stretch says nothing."""
        if sequence_id in self._sequence_ids:
            self._sequence_ids.clear()

    def _observe(self, token_seconds: float) -> None:
        before = token_seconds if self._token_seconds is None else self._token_seconds
        self._token_seconds = before + self._config.prefill_weight * (token_seconds - before)
