"""Acceptance: how likely a predictor's predictions are to come true."""

from dataclasses import dataclass

from services.engine.sequence import Sequence


@dataclass(slots=True)
class _Record:
    """What became of one sequence's predictions lately, against what was to be expected by their places."""

    accepted: float = 0.0
    expected: float = 0.0


class Acceptance:
    """Follows, for all sequences together, the share of accepted predictions by their place in a run (of those whose
    predecessors were accepted), and for each sequence how far it lies above or below that.
    """

    _FIRST_GUESS = 0.7
    _WEIGHT = 0.02  # of a new verdict on a place
    _MEMORY = 0.95  # of a sequence's record, from verdict to verdict
    _TRUST = 4.0  # verdicts that the expectation weighs in a sequence's record
    _HIGHEST = 0.99

    def __init__(self, *, places: int) -> None:
        """Runs longer than `places` go on as their last place."""
        self._shares = [self._FIRST_GUESS] * places
        self._counts = [1] * places
        self._records: dict[Sequence, _Record] = {}

    def observe(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """A run was verified; what lies behind the first that was rejected has not been judged."""
        record = self._records.setdefault(sequence, _Record())
        for index in range(min(num_predicted, num_accepted + 1)):
            is_accepted = index < num_accepted
            place = min(index, len(self._shares) - 1)
            record.accepted = record.accepted * self._MEMORY + is_accepted
            record.expected = record.expected * self._MEMORY + self._shares[place]
            self._counts[place] += 1
            weight = max(self._WEIGHT, 1 / self._counts[place])
            self._shares[place] += weight * (is_accepted - self._shares[place])

    def gains(self, sequence: Sequence, count: int) -> list[float]:
        """For each of a run's first `count` places, the chance that all is accepted up to there."""
        record = self._records.get(sequence, _Record())
        factor = (record.accepted + self._TRUST) / (record.expected + self._TRUST)
        gains, chance = [], 1.0
        for place in range(count):
            chance *= min(self._HIGHEST, self._shares[min(place, len(self._shares) - 1)] * factor)
            gains.append(chance)
        return gains

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence."""
        self._records.pop(sequence, None)
