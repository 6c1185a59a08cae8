"""LengthController: decides how many of a predictor's predictions each step verifies, for requests with AUTO."""

from collections.abc import Sequence as Seq
from dataclasses import replace
from enum import StrEnum

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.exploration import Exploration
from services.target.speculation.policy.goodput_search import GoodputSearch
from services.target.speculation.policy.loss_budget import LossBudget
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.speculation_plan import AutoSequence, SpeculationPlan
from services.target.speculation.policy.step_cost import StepCost
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS, Predictor


class Decision(StrEnum):
    """What a step does for the sequences that leave the choice to the server."""

    PREDICT = "predict"  # the lengths of the highest goodput
    PROBE = "probe"  # a few predictions, to see whether they pay now
    LATER = "later"  # none now, but the draft continues: predictions that come during the pass are expected to pay
    NONE = "none"  # none, since they would not pay, or the loss budget is overdrawn
    MEASURE = "measure"  # none, to measure the time of a pass without predictions
    REHEARSE = "rehearse"  # as many as possible, while no client waits


class LengthController:
    """Dynamic speculation length: chooses the lengths with the highest goodput whose failure the budget could pay for.

    It uses measurements: the cost of passes, the acceptance rates, and the waits for predictions and for prefill.
    """

    def __init__(self, predictor: Predictor, passes: PassCost, budget: LossBudget, config: PolicyConfig) -> None:
        """All controllers share `passes`, the cost of the target's passes, and `budget`."""
        self._cost = StepCost(predictor, passes, config.draft)
        self._later_cost = StepCost(predictor, passes, config.draft, waits=False)
        self._predictor = predictor
        self._budget = budget
        self._config = config
        self.decisions = dict.fromkeys(Decision, 0)
        self.reset()

    @property
    def why_none(self) -> str:
        """The reason for no predictions, as a text for clients."""
        if self._budget.is_overdrawn:
            return "predictions have cost more time than they saved"
        return "predictions would cost more time than they save"

    def reset(self) -> None:
        """Forget all measurements, which do not apply to a newly linked draft."""
        self._rates = AcceptanceRates(self._config.acceptance, num_positions=MOST_PREDICTIONS)
        self._search = GoodputSearch(self._cost, self._rates, self._config.search)
        self._later_search = GoodputSearch(self._later_cost, self._rates, self._config.search)
        self._exploration = Exploration(self._config.exploration)
        self._rest, self._last_rest = 0, 0  # steps without a search for the sequences below
        self._unpaid: list[Sequence] = []  # the sequences of the last search in which no plan paid
        self._num_later = 0  # steps in a row with the decision LATER

    def plan(self, sequences: Seq[AutoSequence], *, num_rows: int, spare_rows: int) -> SpeculationPlan:
        """The lengths for a pass with `num_rows` rows before predictions, and how long it may wait for these."""
        if not sequences:
            return SpeculationPlan([])
        decision, plan = self._choose(sequences, num_rows, spare_rows)
        self.decisions[decision] += 1
        if self._predictor.runs_ahead:
            plan = replace(plan, keeps_asking=decision not in {Decision.PROBE, Decision.NONE})
        if not plan.is_speculative:
            return plan
        if decision is Decision.REHEARSE:
            return replace(plan, max_wait=self._config.draft.longest_reading)
        allowed = self._budget.for_step(self._expected_gain(plan), step=self._cost.passes.seconds(num_rows))
        unknown = 1.0 if self._budget.is_trial else self._config.budget.unknown_wait
        share = unknown + (1 - unknown) * self._rates.confidence
        return replace(plan, max_wait=share * (allowed - plan.verification) + plan.prefill)

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int, *, has_ended: bool) -> None:
        """Learn from a sequence's verified predictions; `has_ended` is whether the predictor ended them by itself."""
        self._exploration.settle()
        self._rates.observe(sequence, num_predicted, num_accepted, has_ended=has_ended)

    def observe(self, plan: SpeculationPlan) -> None:
        """Count a step that followed this plan."""
        self._exploration.observe(is_speculative=plan.is_speculative)

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended."""
        self._rates.close(sequence)

    def _choose(self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int) -> tuple[Decision, SpeculationPlan]:
        nothing = SpeculationPlan([0] * len(sequences))
        if not self._cost.passes.knows(len(sequences)) or self._exploration.wants_plain:
            return Decision.MEASURE, nothing
        if self._budget.is_unlimited:
            return Decision.REHEARSE, self._rehearse(sequences, spare_rows)
        asking = [each.sequence for each in sequences]
        if self._rest and asking == self._unpaid:
            self._rest -= 1
        elif (best := self._affordable(sequences, num_rows, spare_rows)) is not None:
            self._last_rest = self._num_later = 0
            self._exploration.begin_probes_anew()
            best = replace(best, least_chance=self._least_chance(best, sequences, num_rows))
            return Decision.PREDICT, self._exploration.vary(best, sequences, spare_rows=spare_rows)
        elif self._predictor.runs_ahead and self._pays_later(sequences, num_rows, spare_rows):
            self._num_later += 1
            return Decision.LATER, nothing
        else:
            self._begin_rest(asking)
        if not self._exploration.take_probe():
            return Decision.NONE, nothing
        return Decision.PROBE, self._probe(sequences, num_rows, spare_rows)

    def _begin_rest(self, sequences: list[Sequence]) -> None:
        """Search no plan for a while, since none pays, and for longer if that was so before."""
        config = self._config.exploration
        last = self._last_rest if sequences == self._unpaid else 0
        self._rest = self._last_rest = min(config.last_rest, 2 * last + 1) if last else config.first_rest
        self._unpaid, self._num_later = sequences, 0

    def _affordable(self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int) -> SpeculationPlan | None:
        """The best plan that pays and that the budget could pay for; None if there is none."""
        best = self._search.best(sequences, num_rows=num_rows, spare_rows=spare_rows)
        if not self._search.pays(best):
            return None
        if self._rates.confidence < 1 and len(sequences) == 1:  # several would wait until the draft has read them all
            self._budget.begin_trial()
        gain, plain = self._expected_gain(best), self._cost.passes.seconds(num_rows)
        max_risk, max_prefill = self._budget.for_step(gain, step=plain), self._budget.for_prefill(gain, step=plain)
        if best.risk > max_risk or best.prefill > max_prefill:
            best = self._search.best(
                sequences, num_rows=num_rows, spare_rows=spare_rows, max_risk=max_risk, max_prefill=max_prefill
            )
        if self._search.pays(best):
            return best
        self._budget.refuse()
        return None

    def _least_chance(self, best: SpeculationPlan, sequences: Seq[AutoSequence], num_rows: int) -> float:
        """The probability that a run is right below which one more prediction does not pay.

        It is the number of tokens that could be generated in the time of one more prediction, divided by the first
        position's acceptance rate.
        """
        count, cost = len(sequences), self._cost
        drawing = max(0.0, cost.wait(sequences[0].sequence, 2) - cost.wait(sequences[0].sequence, 1))
        verifying = cost.verification(num_rows, 2 * count) / 2
        tokens = best.speedup / cost.passes.seconds(num_rows)  # per second of each sequence
        rate = next(self._rates.run_probabilities(sequences[0].sequence))
        price = tokens * (drawing * cost.slowdown(count) + verifying) / rate
        return min(self._config.search.most_least_chance, price)

    def _pays_later(self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int) -> bool:
        """Whether predictions would pay without a wait for them; False if that has been so for too many steps."""
        if self._num_later >= self._config.exploration.most_later:
            return False
        return self._search.pays(self._later_search.best(sequences, num_rows=num_rows, spare_rows=spare_rows))

    def _expected_gain(self, plan: SpeculationPlan) -> float:
        """The share of time that the plan is expected to save, weighted by the rates' confidence."""
        return (plan.speedup - 1) * self._rates.confidence

    def _rehearse(self, sequences: Seq[AutoSequence], spare_rows: int) -> SpeculationPlan:
        """As many predictions as possible, at any cost, to measure how fast they come and how good they are."""
        length = min(self._exploration.rehearsed_length, spare_rows // len(sequences))
        return SpeculationPlan([min(length, each.max_length) for each in sequences])

    def _probe(self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int) -> SpeculationPlan:
        """Some predictions for as many sequences as the budget allows, those with the least prefill first."""
        allowed = self._budget.for_probe(step=self._cost.passes.seconds(num_rows))
        lengths, prefill, size = [0] * len(sequences), 0.0, 0
        prefills = [self._cost.prefill(each.sequence) for each in sequences]
        for index in sorted(range(len(sequences)), key=prefills.__getitem__):
            auto, more = sequences[index], prefills[index]
            length = min(self._config.exploration.probe_length, auto.max_length, spare_rows - size)
            wait = self._cost.max_wait(self._cost.wait(auto.sequence, length))
            risk = more + self._cost.verification(num_rows, size + length) + wait
            if length and prefill + risk <= allowed:
                lengths[index], prefill, size = length, prefill + more, size + length
        return SpeculationPlan(lengths, prefill=prefill, verification=self._cost.verification(num_rows, size))
