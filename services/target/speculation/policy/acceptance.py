"""Acceptance: how likely a predictor's predictions are to come true."""

from dataclasses import dataclass

from services.target.scheduling.sequence import Sequence
from services.target.speculation.policy.policy_config import AcceptanceConfig


@dataclass(slots=True)
class _Record:
    """What became of one sequence's predictions lately, against what was to be expected by their places."""

    accepted: float = 0.0
    expected: float = 0.0


_UNKNOWN = _Record()


class Chances:
    """Place by place, the chance that all of a run is accepted up to there."""

    __slots__ = ("_chance", "_factor", "_highest", "_place", "_shares")

    def __init__(self, shares: list[float], factor: float, highest: float) -> None:
        self._shares, self._factor, self._highest = shares, factor, highest
        self._place, self._chance = 0, 1.0

    def next(self) -> float:
        """That of the next place, which is part of this chance."""
        share = self._shares[min(self._place, len(self._shares) - 1)]
        self._place += 1
        self._chance *= min(self._highest, share * self._factor)
        return self._chance


class Acceptance:
    """Follows, for all sequences together, the share of accepted predictions by their place in a run (of those whose
    predecessors were accepted), and for each sequence how far it lies above or below that.
    """

    def __init__(self, config: AcceptanceConfig, *, places: int) -> None:
        """Runs longer than `places` go on as their last place."""
        self._config = config
        self._shares = [config.prior_rate] * places
        self._counts = [config.prior_verdicts] * places
        self._records: dict[Sequence, _Record] = {}

    @property
    def confidence(self) -> float:
        """From 0, where all is guessed, to 1, where enough predictions were judged."""
        return min(1.0, (self._counts[0] - self._config.prior_verdicts) / self._config.confident_after)

    def observe(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """A run was verified; what lies behind the first that was rejected has not been judged."""
        record, memory = self._records.setdefault(sequence, _Record()), self._config.sequence_memory
        for index in range(min(num_predicted, num_accepted + 1)):
            is_accepted = index < num_accepted
            place = min(index, len(self._shares) - 1)
            record.accepted = record.accepted * memory + is_accepted
            record.expected = record.expected * memory + self._shares[place]
            self._counts[place] += 1
            weight = max(self._config.min_weight, 1 / self._counts[place])
            self._shares[place] += weight * (is_accepted - self._shares[place])

    def chances(self, sequence: Sequence, *, caution: float = 1.0) -> "Chances":
        """How likely a run for the sequence is to be accepted; with more caution, it takes more verdicts to believe
        that it differs from the others.
        """
        record, trust = self._records.get(sequence, _UNKNOWN), self._config.sequence_trust * caution
        factor = (record.accepted + trust) / (record.expected + trust)
        return Chances(self._shares, factor, self._config.max_rate)

    def gains(self, sequence: Sequence, count: int) -> list[float]:
        """For each of a run's first `count` places, the chance that all is accepted up to there."""
        chances = self.chances(sequence)
        return [chances.next() for _ in range(count)]

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence."""
        self._records.pop(sequence, None)
