"""LengthController: decides how many of a predictor's predictions each step verifies, for requests with AUTO."""

from collections.abc import Sequence as Seq
from dataclasses import replace
from enum import StrEnum

import numpy as np

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.expected_rate import BestLengths, StepEstimate, most_tokens_per_second
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from services.target.speculation.policy.speculation_plan import AutoSequence, SpeculationPlan
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS, Predictor


class Decision(StrEnum):
    """What a step does for the sequences that leave the choice to the server."""

    PREDICT = "predict"  # the lengths with the most expected tokens per second
    PROBE = "probe"  # one prediction for one sequence, to see whether they pay now
    LATER = "later"  # none now, but the draft continues: predictions that come during the pass are expected to pay
    NONE = "none"  # none, since they would not pay
    MEASURE = "measure"  # none, to measure the time of a pass without predictions
    REHEARSE = "rehearse"  # a fixed number, while no client waits


class LengthController:
    """Dynamic speculation length: chooses the lengths with the most expected tokens per second, by measurements: the
    cost of passes, the acceptance rates, and the times of predictions. What is not measured yet has a prior that tries.
    """

    def __init__(self, predictor: Predictor, passes: PassCost, regret: Regret, config: PolicyConfig) -> None:
        """All controllers share `passes`, the cost of the target's passes, and `regret`."""
        self._predictor = predictor
        self._passes = passes
        self._regret = regret
        self._config = config
        self.decisions = dict.fromkeys(Decision, 0)
        self.reset()

    @property
    def why_none(self) -> str:
        """The reason for no predictions, as a text for clients."""
        return f"predictions would cost more time than they save: at best {self._best_speedup:.2f} times as many tokens"

    def reset(self) -> None:
        """Forget all measurements, which do not apply to a newly linked draft."""
        self._rates = AcceptanceRates(self._config)
        self._best_speedup = 1.0  # expected of the last search
        self._num_speculative = 0  # steps with predictions since the last one without
        self._num_plain = 0  # steps without predictions since the last one with
        self._num_failed = 0  # probes since predictions paid
        self._is_probe_won = False  # whether the last step was a probe whose prediction was accepted

    def plan(self, sequences: Seq[AutoSequence], *, num_rows: int, spare_rows: int, num_others: int) -> SpeculationPlan:
        """The lengths for a pass with `num_rows` rows before predictions and `num_others` further sequences, and how
        long it may wait for these.
        """
        if not sequences:
            return SpeculationPlan([])
        decision, plan = self._choose(sequences, num_rows, spare_rows, num_others)
        self.decisions[decision] += 1
        self._is_probe_won = False
        if self._predictor.runs_ahead:
            plan = replace(plan, keeps_asking=decision not in {Decision.PROBE, Decision.NONE})
        return plan

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int, *, has_ended: bool) -> None:
        """Learn from a sequence's verified predictions; `has_ended` is whether the predictor ended them by itself."""
        self._is_probe_won |= num_accepted > 0
        self._rates.observe(sequence, num_predicted, num_accepted, has_ended=has_ended)

    def observe(self, plan: SpeculationPlan) -> None:
        """Count a step that followed this plan."""
        if plan.is_speculative:
            self._num_speculative, self._num_plain = self._num_speculative + 1, 0
        else:
            self._num_speculative, self._num_plain = 0, self._num_plain + 1

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended."""
        self._rates.close(sequence)

    def _choose(
        self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int, num_others: int
    ) -> tuple[Decision, SpeculationPlan]:
        nothing = SpeculationPlan([0] * len(sequences))
        if not self._passes.knows(len(sequences)) or self._num_speculative >= self._config.plain_every:
            return Decision.MEASURE, nothing
        if self._regret.is_free:
            return Decision.REHEARSE, self._rehearse(sequences, spare_rows)
        step = self._estimate(sequences, num_rows, spare_rows, num_others)
        left = min(self._regret.left(each.sequence for each in sequences))
        trust = self._rates.confidence
        best = self._best(step, left, trust)
        if best.speedup < self._config.least_speedup:
            trust = 0.0
            best = self._best(self._hopeful(step, sequences), left, trust)
        self._best_speedup = best.speedup
        if best.speedup >= self._config.least_speedup:
            self._num_failed = 0
            return Decision.PREDICT, self._plan(best, step, left, trust)
        if plan := self._probe(step, left):
            return Decision.PROBE, plan
        if self._predictor.runs_ahead:
            best = most_tokens_per_second(replace(step, times=PredictionTimes(step.times.sequences)))
            if best.speedup >= self._config.least_speedup:
                return Decision.LATER, nothing
        return Decision.NONE, nothing

    def _best(self, step: StepEstimate, left: float, trust: float) -> BestLengths:
        """The best lengths with or without the sequences that the draft must read first, the shortest ones; for them
        the streams must be able to lose the part of the time that is not trusted to return. An unknown time is limited
        by the wait.
        """
        if not step.readings.any():
            return most_tokens_per_second(step)
        known = np.array([0.0 if each.reading is None else each.reading for each in step.times.sequences])
        shortest = known.argsort()
        risk = np.empty_like(known)
        risk[shortest] = known[shortest].cumsum() * (1 - trust)
        choices = (replace(step, most=step.most * may_begin) for may_begin in (step.readings == 0, risk <= left))
        return max(map(most_tokens_per_second, choices), key=lambda best: best.speedup)

    def _estimate(self, sequences: Seq[AutoSequence], num_rows: int, spare_rows: int, num_others: int) -> StepEstimate:
        """Everything that the lengths depend on."""
        streams = [each.sequence for each in sequences]
        times = self._predictor.times(streams)
        most_rows = num_rows + max(0, spare_rows)
        passes = self._passes.table(most_rows)[: most_rows + 1]
        return StepEstimate(
            chances=self._rates.probabilities(streams),
            offered=self._rates.offered,
            most=np.array([each.max_length for each in sequences]),
            passes=passes,
            num_rows=num_rows,
            num_others=num_others,
            times=times,
            readings=np.array([*map(self._reading, streams, times.sequences)]),
            horizons=np.array([max(1, min(self._config.horizon, each.num_remaining)) for each in streams]),
            reading_price=self._config.wait_margin,
            wait_price=self._config.wait_margin if self._predictor.runs_ahead else 1.0,
            protected=np.flatnonzero(np.array(self._regret.left(streams)) == 0),
        )

    def _hopeful(self, step: StepEstimate, sequences: Seq[AutoSequence]) -> StepEstimate:
        """The same by a hopeful estimate for the sequences that can lose time."""
        streams = [each.sequence for each in sequences]
        hopeful = (left > 0 for left in self._regret.left(streams))
        return replace(step, chances=self._rates.probabilities(streams, hopeful))

    def _reading(self, sequence: Sequence, times: SequenceTimes) -> float:
        """The draft's time to read a sequence. While that is unknown, the target's is used, which reads as many tokens
        in a pass as it verifies predictions.
        """
        if times.reading is not None:
            return times.reading
        return len(sequence.tokens) / MOST_PREDICTIONS * self._passes.seconds(1)

    def _plan(self, best: BestLengths, step: StepEstimate, left: float, trust: float) -> SpeculationPlan:
        reading = float(step.readings[np.array(best.lengths) > 0].sum())
        return SpeculationPlan(
            best.lengths,
            speedup=best.speedup,
            max_wait=max(self._config.wait_margin * (best.wait + reading), min(left, self._config.loss_seconds)),
            invested=reading * trust,
            least_chance=self._least_chance(best, step),
        )

    def _least_chance(self, best: BestLengths, step: StepEstimate) -> float:
        """The probability that a run is right below which one more prediction does not pay.

        It is the number of tokens that could be generated in the time of one more prediction, divided by the first
        position's acceptance rate.
        """
        count, rows = len(step.most), step.num_rows
        last = min(rows + 2 * count, len(step.passes) - 1)
        verifying = float(step.passes[last] - step.passes[rows]) / 2
        tokens = best.speedup / float(step.passes[rows])  # per second of each sequence
        price = (
            tokens * (step.times.each * (1 + step.times.growth * (count - 1)) + verifying) / float(step.chances[0, 0])
        )
        return float(min(self._config.most_least_chance, price))

    def _rehearse(self, sequences: Seq[AutoSequence], spare_rows: int) -> SpeculationPlan:
        """A fixed number of predictions, at any cost, to measure how fast they come and how good they are."""
        config, lengths = self._config, self._config.rehearsed_lengths
        length = min(lengths[self._num_speculative % len(lengths)], spare_rows // len(sequences))
        max_wait = max(config.longest_wait, config.wait_margin * self._passes.seconds(1))
        return SpeculationPlan([min(length, each.max_length) for each in sequences], max_wait=max_wait)

    def _probe(self, step: StepEstimate, left: float) -> SpeculationPlan | None:
        """One prediction for the sequence that is read soonest, if its time is a small share of the time since the last
        step with predictions, half as large after each probe that failed. One that succeeds is followed by another, if
        there is only this sequence, as long as it has lost at most half of what it may.
        """
        is_open = step.most > 0
        if not is_open.any() or len(step.passes) <= step.num_rows + 1:
            return None
        index = int(np.where(is_open, step.readings, np.inf).argmin())
        plain, longer = (float(step.passes[step.num_rows + more]) for more in (0, 1))
        reading = step.times.sequences[index].reading
        wait = left if reading is None else min(left, reading + step.times.delay + step.times.each)
        is_due = (wait + longer - plain) * 2**self._num_failed <= self._config.loss_share / 2 * self._num_plain * plain
        is_won = self._is_probe_won and len(step.most) == 1 and left >= self._config.loss_seconds / 2
        if (reading or 0.0) >= left or not (is_due or is_won):
            return None
        self._num_failed += 1
        lengths = [0] * len(step.most)
        lengths[index] = 1
        return SpeculationPlan(lengths, max_wait=left)
