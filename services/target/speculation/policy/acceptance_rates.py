"""AcceptanceRates: the acceptance rates of a predictor's predictions, by position and by sequence."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from operator import mul

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.policy_config import AcceptanceConfig


@dataclass(slots=True)
class _Verdicts:
    """How many of one sequence's latest predictions were accepted, and how many were expected to be."""

    accepted: float = 0.0
    expected: float = 0.0


_NO_VERDICTS = _Verdicts()


class AcceptanceRates:
    """Estimates the acceptance rate of each position of a run, among predictions whose predecessors were accepted, for
    all sequences together; and for each sequence how far it is above or below that.
    """

    def __init__(self, config: AcceptanceConfig, *, num_positions: int) -> None:
        """Positions after the first `num_positions` have the rate of the last one."""
        self._config = config
        self._rates = [config.prior_rate] * num_positions
        self._counts = [config.prior_verdicts] * num_positions  # number of verdicts, by position
        self._offers = [1.0] * num_positions  # of the runs that reach the previous position, the share that reach this
        self._verdicts: dict[Sequence, _Verdicts] = {}

    @property
    def confidence(self) -> float:
        """From 0, with no measurements, to 1, when enough predictions were verified."""
        return min(1.0, (self._counts[0] - self._config.prior_verdicts) / self._config.confident_after)

    def observe(self, sequence: Sequence, num_predicted: int, num_accepted: int, *, has_ended: bool = False) -> None:
        """Learn from a verified run; predictions after the first rejected one got no verdict.

        `has_ended` is whether the run ended by itself, with fewer predictions than were requested.
        """
        self._observe_end(num_predicted, has_ended=has_ended)
        verdicts, memory = self._verdicts.setdefault(sequence, _Verdicts()), self._config.sequence_memory
        for index in range(min(num_predicted, num_accepted + 1)):
            is_accepted = index < num_accepted
            position = min(index, len(self._rates) - 1)
            verdicts.accepted = verdicts.accepted * memory + is_accepted
            verdicts.expected = verdicts.expected * memory + self._rates[position]
            self._counts[position] += 1
            weight = max(self._config.min_weight, 1 / self._counts[position])
            self._rates[position] += weight * (is_accepted - self._rates[position])

    def run_probabilities(self, sequence: Sequence, *, is_cautious: bool = False) -> Iterator[float]:
        """For each position of an endless run, the probability that there is a prediction and that it and all before it
        are accepted; with caution, it takes more verdicts to believe that the sequence differs from the others.
        """
        verdicts, config = self._verdicts.get(sequence, _NO_VERDICTS), self._config
        trust = config.sequence_trust * (config.caution if is_cautious else 1.0)
        factor = (verdicts.accepted + trust) / (verdicts.expected + trust)
        probability = 1.0
        for rate, offer in zip(_endless(self._rates), _endless(self._offers), strict=False):
            probability *= offer * min(config.max_rate, rate * factor)
            yield probability

    def offered(self) -> Iterator[float]:
        """For each position of an endless run, the probability that there is a prediction."""
        return accumulate(_endless(self._offers), mul)

    def _observe_end(self, num_predicted: int, *, has_ended: bool) -> None:
        for index in range(1, min(num_predicted + has_ended, len(self._offers))):
            is_offered = index < num_predicted
            weight = max(self._config.min_weight, 1 / self._counts[index - 1])
            self._offers[index] += weight * (is_offered - self._offers[index])

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended."""
        self._verdicts.pop(sequence, None)


def _endless(positions: list[float]) -> Iterator[float]:
    return chain(positions, repeat(positions[-1]))
