"""Proposal: speculation lengths that grow by one prediction at a time, the likeliest first."""

import heapq
from collections.abc import Sequence as Seq

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.policy_config import SearchConfig
from services.target.speculation.policy.speculation_plan import AutoSequence, SpeculationPlan
from services.target.speculation.policy.step_cost import StepCost


class Proposal:
    """Begins with no prediction for any sequence; knows at any time what is expected of its lengths."""

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
        """Predictions for all sequences."""
        self._sequences, self._cost, self._config, self._num_rows = sequences, cost, config, num_rows
        self._plain = cost.passes.seconds(num_rows)  # seconds of the pass without predictions
        self._lengths = [0] * len(sequences)
        self._tokens = float(len(sequences))  # expected of the step
        self._cautious_tokens = [1.0] * len(sequences)  # of each sequence, unless it was only unlucky
        self._verification = self._wait = self._prefill = self._prefill_per_pass = 0.0  # seconds
        self._probabilities = [rates.run_probabilities(each.sequence) for each in sequences]
        self._cautious = [rates.run_probabilities(each.sequence, is_cautious=True) for each in sequences]
        first = zip(sequences, self._probabilities, strict=True)
        self._next = [(-next(each), index) for index, (auto, each) in enumerate(first) if auto.max_length]
        heapq.heapify(self._next)  # of each sequence the prediction to come, the likeliest on top

    @property
    def can_grow(self) -> bool:
        """Whether any sequence can take one more."""
        return bool(self._next)

    @property
    def amortized_speedup(self) -> float:
        """As the plan's."""
        return self._speedup(self._prefill_per_pass)

    @property
    def slowest_speedup(self) -> float:
        """As the plan's."""
        return min(self._cautious_tokens) / self._step * self._plain

    def plan(self) -> SpeculationPlan:
        """The lengths as they are."""
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
        """Add the likeliest prediction that is left, or drop its sequence if it would be too dear; False if so."""
        probability, index = heapq.heappop(self._next)
        auto, length = self._sequences[index], self._lengths[index]
        verification = self._cost.passes.seconds(self._num_rows + self.size + 1) - self._plain
        prefill = 0.0 if length else self._cost.prefill(auto.sequence)
        wait = max(self._wait, self._cost.wait(auto.sequence, length + 1))
        if verification + self._cost.max_wait(wait) > max_risk or self._prefill + prefill > max_prefill:
            return False
        self.size, self._verification, self._wait = self.size + 1, verification, wait
        self._prefill += prefill
        self._prefill_per_pass += prefill / self._num_passes(auto.sequence)
        self._lengths[index] += 1
        self._tokens -= probability
        self._cautious_tokens[index] += next(self._cautious[index])
        if self._lengths[index] < auto.max_length:
            heapq.heappush(self._next, (-next(self._probabilities[index]), index))
        return True

    @property
    def _step(self) -> float:
        return self._plain + self._verification + self._wait

    def _speedup(self, prefill: float) -> float:
        return self._tokens / len(self._sequences) * self._plain / (self._step + prefill)

    def _num_passes(self, sequence: Sequence) -> int:
        """Over how many the prefill is shared out, if the sequence does not end early."""
        return max(1, min(self._config.horizon, sequence.num_remaining // self._config.tokens_per_pass))
