"""LengthController: how many of a predictor's predictions each step verifies, where the request leaves that open."""

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
    """What a step does for the sequences that leave it the choice."""

    PREDICT = "predict"  # the lengths of the highest goodput
    PROBE = "probe"  # a few predictions, to see whether they have come to pay
    LATER = "later"  # none now, but the draft runs on: what comes during the pass is expected to pay
    NONE = "none"  # none would pay, or more was lost than may be
    MEASURE = "measure"  # none, to measure what a pass takes without
    REHEARSE = "rehearse"  # as many as there can be, while nobody waits


class LengthController:
    """Dynamic speculation length: of the lengths whose failure the budget could pay for, those of the highest goodput.

    What it goes by is measured: the cost of passes, the acceptance rates, the wait for predictions and for prefill.
    """

    def __init__(self, predictor: Predictor, passes: PassCost, budget: LossBudget, config: PolicyConfig) -> None:
        """The cost is the one of the target's passes, whoever predicts, and the budget that of all who do."""
        self._cost = StepCost(predictor, passes, config.draft)
        self._later_cost = StepCost(predictor, passes, config.draft, waits=False)
        self._predictor = predictor
        self._budget = budget
        self._config = config
        self.decisions = dict.fromkeys(Decision, 0)
        self.reset()

    @property
    def why_none(self) -> str:
        """Why it wants no predictions, for a person to read."""
        if self._budget.is_overdrawn:
            return "predictions have cost more time than they saved"
        return "predictions would cost more time than they save"

    def reset(self) -> None:
        """Begin anew: what was measured says nothing of a predictor that has just come."""
        self._rates = AcceptanceRates(self._config.acceptance, num_positions=MOST_PREDICTIONS)
        self._search = GoodputSearch(self._cost, self._rates, self._config.search)
        self._later_search = GoodputSearch(self._later_cost, self._rates, self._config.search)
        self._exploration = Exploration(self._config.exploration)
        self._rest, self._last_rest = 0, 0  # steps for which no predictions are planned for the sequences below
        self._unpaid: list[Sequence] = []  # for which nothing paid when it was last searched
        self._num_later = 0  # steps in a row that left it to the next one

    def plan(self, sequences: Seq[AutoSequence], *, num_rows: int, spare_rows: int) -> SpeculationPlan:
        """The lengths for a pass that has so many rows without predictions, and how long it may wait for them."""
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
        """The predictions for a sequence were verified; the predictor may have ended with them by itself."""
        self._exploration.settle()
        self._rates.observe(sequence, num_predicted, num_accepted, has_ended=has_ended)

    def observe(self, plan: SpeculationPlan) -> None:
        """The step that was planned so has ended."""
        self._exploration.observe(is_speculative=plan.is_speculative)

    def close(self, sequence: Sequence) -> None:
        """The sequence has ended."""
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
        """Nothing pays: plan no predictions for a while, and for longer where it was so before."""
        config = self._config.exploration
        last = self._last_rest if sequences == self._unpaid else 0
        self._rest = self._last_rest = min(config.last_rest, 2 * last + 1) if last else config.first_rest
        self._unpaid, self._num_later = sequences, 0

    def _affordable(self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int) -> SpeculationPlan | None:
        """The best plan that pays and that the budget could pay for; None if there is none."""
        best = self._search.best(sequences, num_rows=num_rows, spare_rows=spare_rows)
        if not self._search.pays(best):
            return None
        if self._rates.confidence < 1 and len(sequences) == 1:  # several would wait for all that the draft has to read
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
        """What the tokens are worth that could be generated in the time that one more prediction takes, as the chance
        with which that must be reached, where it is as often right as the first one.
        """
        count, cost = len(sequences), self._cost
        drawing = max(0.0, cost.wait(sequences[0].sequence, 2) - cost.wait(sequences[0].sequence, 1))
        verifying = cost.verification(num_rows, 2 * count) / 2
        tokens = best.speedup / cost.passes.seconds(num_rows)  # per second of each sequence
        rate = next(self._rates.run_probabilities(sequences[0].sequence))
        price = tokens * (drawing * cost.slowdown(count) + verifying) / rate
        return min(self._config.search.most_least_chance, price)

    def _pays_later(self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int) -> bool:
        """Whether predictions would pay that need not be waited for, unless it seemed so for long enough."""
        if self._num_later >= self._config.exploration.most_later:
            return False
        return self._search.pays(self._later_search.best(sequences, num_rows=num_rows, spare_rows=spare_rows))

    def _expected_gain(self, plan: SpeculationPlan) -> float:
        """The share of time that is expected to be won, as far as anything is known."""
        return (plan.speedup - 1) * self._rates.confidence

    def _rehearse(self, sequences: Seq[AutoSequence], spare_rows: int) -> SpeculationPlan:
        """Nobody waits: whatever it costs, see how fast predictions come and how good they are."""
        length = min(self._exploration.rehearsed_length, spare_rows // len(sequences))
        return SpeculationPlan([min(length, each.max_length) for each in sequences])

    def _probe(self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int) -> SpeculationPlan:
        """Some predictions for as many sequences as can be paid for, those with the least to prefill first."""
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
