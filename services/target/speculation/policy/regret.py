"""Regret: how much of each stream's time predictions have lost, and how much they still may."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.policy_config import PolicyConfig


@dataclass(slots=True)
class _Account:
    """One stream's; times are in seconds."""

    since: float  # when it began to decode
    lost: float = 0.0  # by predictions; negative for a gain, but no more than may be lost


class Regret:
    """A stream may lose a share of its time or a fixed time, whichever is more. As long as it has not, predictions are
    tried on it if a hopeful estimate says that they pay; afterwards only if a sober one does, and predictions for other
    streams of the same plan may not slow it down.
    """

    def __init__(self, config: PolicyConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._accounts: dict[Sequence, _Account] = {}

    @property
    def is_free(self) -> bool:
        """Whether no stream is decoding, so that no client can lose time."""
        return not self._accounts

    def join(self, sequence: Sequence) -> None:
        """Add a stream that has begun to decode; does nothing if it was added before."""
        if sequence not in self._accounts:
            self._accounts[sequence] = _Account(self._clock())

    def leave(self, sequence: Sequence) -> None:
        """Remove a stream that has ended."""
        self._accounts.pop(sequence, None)

    def left(self, sequences: Iterable[Sequence]) -> list[float]:
        """The seconds that each of these streams may still lose."""
        accounts = (self._accounts.get(sequence) for sequence in sequences)
        return [max(0.0, self._allowed(account) - account.lost) if account else 0.0 for account in accounts]

    def observe(self, sequence: Sequence, lost: float) -> None:
        """Count the seconds that a stream lost in a step, negative for a gain."""
        if account := self._accounts.get(sequence):
            account.lost = max(-self._allowed(account), account.lost + lost)

    def _allowed(self, account: _Account) -> float:
        return max(self._config.loss_seconds, self._config.loss_share * (self._clock() - account.since))
