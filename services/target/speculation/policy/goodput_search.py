"""GoodputSearch: finds the speculation lengths with the most expected tokens per second."""

import math
from collections.abc import Sequence as Seq

from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.policy_config import SearchConfig
from services.target.speculation.policy.proposal import Proposal
from services.target.speculation.policy.speculation_plan import AutoSequence, SpeculationPlan
from services.target.speculation.policy.step_cost import StepCost


class GoodputSearch:
    """Maximises goodput (SmartSpec, Liu et al., arXiv 2406.14066) over the lengths of all sequences together."""

    def __init__(self, cost: StepCost, rates: AcceptanceRates, config: SearchConfig) -> None:
        self._cost = cost
        self._rates = rates
        self._config = config

    def best(
        self,
        sequences: Seq[AutoSequence],
        *,
        num_rows: int,
        spare_rows: int,
        max_risk: float = math.inf,
        max_prefill: float = math.inf,
    ) -> SpeculationPlan:
        """Add predictions one by one, in fair shares, and return the lengths with the highest goodput among those that
        slow no sequence down, risk at most `max_risk` seconds, and need at most `max_prefill` seconds for prefill.
        """
        proposal = Proposal(sequences, self._cost, self._rates, self._config, num_rows=num_rows)
        best, best_size = SpeculationPlan([0] * len(sequences)), 0
        room = min(spare_rows, self._cost.passes.reach - num_rows)
        look_ahead = self._look_ahead(len(sequences))
        while proposal.can_grow and proposal.size < min(room, best_size + look_ahead):
            has_grown = proposal.grow(max_risk=max_risk, max_prefill=max_prefill)
            if has_grown and self._is_better(proposal, best):
                best, best_size = proposal.plan(), proposal.size
        return best

    def pays(self, plan: SpeculationPlan) -> bool:
        """Whether a plan is faster than no predictions by more than the estimates' uncertainty."""
        threshold = self._config.to_begin if plan.prefill else self._config.to_continue
        return plan.amortized_speedup > threshold.mean and plan.slowest_speedup >= threshold.slowest

    def _is_better(self, proposal: Proposal, best: SpeculationPlan) -> bool:
        is_faster = proposal.amortized_speedup > best.amortized_speedup
        return is_faster and proposal.slowest_speedup >= self._config.to_continue.slowest

    def _look_ahead(self, num_sequences: int) -> int:
        """How many predictions may be added without a gain before the search ends."""
        config = self._config
        return min(max(config.min_look_ahead, config.look_ahead_per_sequence * num_sequences), config.max_look_ahead)
