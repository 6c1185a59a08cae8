"""AcceptanceRates: the probabilities that a predictor's predictions are accepted, by position and by sequence."""

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.config import MOST_PREDICTIONS
from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.policy_config import PolicyConfig


@dataclass(slots=True)
class _Verdicts:
    """Decayed sums over predictions."""

    accepted: float = 0.0
    rejected: float = 0.0

    def add(self, accepted: float, rejected: float, memory: float) -> None:
        """Add to the sums, after multiplying them by `memory`."""
        self.accepted = self.accepted * memory + accepted
        self.rejected = self.rejected * memory + rejected


class AcceptanceRates:
    """Estimates the acceptance rate of each position of a run, among predictions whose predecessors were accepted, for
    all sequences together; and for each sequence, by how much its odds of acceptance are above or below those.

    The prior of a position is the rate of the position before it.
    """

    def __init__(self, config: PolicyConfig) -> None:
        self._config = config
        self._prior = _Verdicts(
            config.prior_verdicts * config.prior_rate, config.prior_verdicts * (1 - config.prior_rate)
        )
        self._verdicts = [_Verdicts() for _ in range(MOST_PREDICTIONS)]  # by position
        self._own: dict[Sequence, tuple[_Verdicts, _Verdicts]] = {}  # those of a sequence, and as they were expected
        self._rates = [config.prior_rate] * MOST_PREDICTIONS

    @property
    def confidence(self) -> float:
        """From 0, before any verdict, to nearly 1."""
        judged = self._verdicts[0].accepted + self._verdicts[0].rejected
        return judged / (judged + self._prior.rejected)

    def observe(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """Learn from a verified run; predictions after the first rejected one got no verdict."""
        seen, expected = self._own.setdefault(sequence, (_Verdicts(), _Verdicts()))
        for position in range(min(num_predicted, num_accepted + 1, MOST_PREDICTIONS)):
            is_accepted, rate = position < num_accepted, self._rates[position]
            for verdicts in (seen, self._verdicts[position]):
                verdicts.add(is_accepted, not is_accepted, self._config.verdict_memory)
            expected.add(rate, 1 - rate, self._config.verdict_memory)

    def probabilities(self, sequences: Seq[Sequence], hopeful: Iterable[bool] = ()) -> NDArray[np.float64]:
        """For each sequence and position the probability that this prediction and all before it are accepted,
        [sequences, MOST_PREDICTIONS].

        For the sequences that are `hopeful`, by default none, the estimate is half a standard deviation of the mean of
        all better, since texts differ, and a draft that is not tried is not measured.
        """
        self._rates = [*self._estimates()]
        odds = np.array([self._odds(sequence) for sequence in sequences])
        if hopes := [*hopeful]:
            expected = np.array([self._of(sequence)[1].rejected for sequence in sequences]) + self._prior.rejected
            odds /= 1 - np.array(hopes) / (2 * np.sqrt(expected * len(sequences)))
        rates = np.array(self._rates)
        odds = odds[:, None] * (rates / (1 - rates))
        chances: NDArray[np.float64] = (odds / (1 + odds)).cumprod(axis=1)
        return chances

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended."""
        self._own.pop(sequence, None)

    def _of(self, sequence: Sequence) -> tuple[_Verdicts, _Verdicts]:
        return self._own.get(sequence) or (_Verdicts(), _Verdicts())

    def _odds(self, sequence: Sequence) -> float:
        """The odds that a sequence's predictions are accepted, over those of all sequences."""
        (seen, expected), prior = self._of(sequence), self._prior
        accepted = (seen.accepted + prior.accepted) / (expected.accepted + prior.accepted)
        return accepted / ((seen.rejected + prior.rejected) / (expected.rejected + prior.rejected))

    def _estimates(self) -> Iterator[float]:
        """The rate of each position."""
        rate, prior = self._config.prior_rate, self._config.prior_verdicts
        for verdicts in self._verdicts:
            rate = (verdicts.accepted + prior * rate) / (verdicts.accepted + verdicts.rejected + prior)
            yield rate
