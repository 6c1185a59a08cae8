"""Proposal: speculation lengths that grow by one prediction at a time, in fair shares among sequences."""

import heapq
from collections.abc import Sequence as Seq
from itertools import accumulate, islice

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.policy_config import SearchConfig
from services.target.speculation.policy.speculation_plan import AutoSequence, SpeculationPlan
from services.target.speculation.policy.step_cost import StepCost


class Proposal:
    """Begins without predictions, and keeps the expected results of its current lengths."""

    def __init__(
        self,
        sequences: Seq[AutoSequence],
        cost: StepCost,
        rates: AcceptanceRates,
        config: SearchConfig,
        *,
        num_rows: int,
    ) -> None:
        """The pass has `num_rows` rows without predictions."""
        self.size = 0
        """The number of predictions for all sequences."""
        self._sequences, self._cost, self._config, self._num_rows = sequences, cost, config, num_rows
        self._plain = cost.passes.seconds(num_rows)  # seconds of the pass without predictions
        self._lengths = [0] * len(sequences)
        self._tokens = float(len(sequences))  # expected of the step
        self._cautious_tokens = [1.0] * len(sequences)  # expected of each sequence, with caution
        self._verification = self._prefill = self._prefill_per_pass = 0.0  # seconds
        self._wait_alone = self._wait = 0.0  # seconds for the longest run, alone and together with the others
        self._num_asked = 0  # sequences with predictions
        self._num_drawn = 0.0  # predictions that are expected to come
        longest = max((each.max_length for each in sequences), default=0)
        self._offered = [*islice(rates.offered(), longest)]
        self._drawn = [0.0, *accumulate(self._offered)]  # expected of a run, by its length
        self._probabilities = [rates.run_probabilities(each.sequence) for each in sequences]
        self._cautious = [rates.run_probabilities(each.sequence, is_cautious=True) for each in sequences]
        self._next: list[tuple[float, int, float]] = []  # a heap of each sequence's next prediction
        for index in range(len(sequences)):
            self._put_next(index)

    @property
    def can_grow(self) -> bool:
        """Whether any sequence can get one more prediction."""
        return bool(self._next)

    @property
    def amortized_speedup(self) -> float:
        """The plan's `amortized_speedup` at the current lengths."""
        return self._speedup(self._prefill_per_pass)

    @property
    def slowest_speedup(self) -> float:
        """The plan's `slowest_speedup` at the current lengths."""
        return min(self._cautious_tokens) / self._step * self._plain

    def plan(self) -> SpeculationPlan:
        """A plan with the current lengths."""
        return SpeculationPlan(
            [*self._lengths],
            speedup=self._speedup(0.0),
            amortized_speedup=self.amortized_speedup,
            slowest_speedup=self.slowest_speedup,
            prefill=self._prefill,
            verification=self._verification,
            risk=self._verification + self._cost.max_wait(self._wait),
        )

    def grow(self, *, max_risk: float, max_prefill: float) -> bool:
        """Add the prediction that increases its sequence's expected tokens by the largest share (proportional fairness,
        Kelly 1997). If it exceeds a limit, do not extend this sequence any more, and return False.
        """
        _, index, probability = heapq.heappop(self._next)
        auto, length = self._sequences[index], self._lengths[index]
        num_drawn = self._num_drawn + self._offered[length]
        verification = self._cost.passes.seconds(self._num_rows + num_drawn) - self._plain
        prefill = 0.0 if length else self._cost.prefill(auto.sequence)
        num_asked = self._num_asked + (not length)
        wait_alone = max(self._wait_alone, self._cost.wait(auto.sequence, self._drawn[length + 1]))
        wait = wait_alone * self._cost.slowdown(num_asked)
        if verification + self._cost.max_wait(wait) > max_risk or self._prefill + prefill > max_prefill:
            return False
        self.size, self._verification, self._num_asked = self.size + 1, verification, num_asked
        self._num_drawn = num_drawn
        self._wait_alone, self._wait = wait_alone, wait
        self._prefill += prefill
        self._prefill_per_pass += prefill / self._num_passes(auto.sequence)
        self._lengths[index] += 1
        self._tokens += probability
        self._cautious_tokens[index] += next(self._cautious[index])
        self._put_next(index)
        return True

    def _put_next(self, index: int) -> None:
        if self._lengths[index] < self._sequences[index].max_length:
            probability = next(self._probabilities[index])
            heapq.heappush(self._next, (-probability / self._cautious_tokens[index], index, probability))

    @property
    def _step(self) -> float:
        return self._plain + self._verification + self._wait * self._cost.wait_price

    def _speedup(self, prefill: float) -> float:
        return self._tokens / len(self._sequences) * self._plain / (self._step + prefill)

    def _num_passes(self, sequence: Sequence) -> int:
        """The number of passes over which a sequence's prefill is amortised, if it does not end early."""
        return max(1, min(self._config.horizon, sequence.num_remaining // self._config.tokens_per_pass))
