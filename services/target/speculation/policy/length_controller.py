"""LengthController: decides how many of a predictor's predictions each step verifies, for requests with AUTO."""

import math
from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np

from services.engine.config import MOST_PREDICTIONS
from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.expected_rate import BestLengths, StepEstimate, most_tokens_per_second
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from services.target.speculation.policy.speculation_plan import Decision, SpeculationPlan, StepSize
from services.target.speculation.predictors.prediction_times import PredictionTimes
from services.target.speculation.predictors.predictor import Predictor


class LengthController:
    """Dynamic speculation length: chooses the lengths with the most expected tokens per second, by measurements: the
    cost of passes, the acceptance rates, and the times of predictions. What is not measured yet has a prior that tries.
    """

    def __init__(self, predictor: Predictor, passes: PassCost, regret: Regret, config: PolicyConfig) -> None:
        """All controllers share `passes`, the cost of the target's passes, and `regret`."""
        self._predictor, self._passes, self._regret, self._config = predictor, passes, regret, config
        self.decisions = dict.fromkeys(Decision, 0)
        self.reset()

    @property
    def why_none(self) -> str:
        """The reason for no predictions, as a text for clients."""
        if not self._best_speedup:
            return "predictions would slow down a stream that has lost as much time to them as it may"
        return f"predictions would cost more time than they save: at best {self._best_speedup:.2f} times as many tokens"

    def reset(self) -> None:
        """Forget all measurements, which do not apply to a newly linked draft."""
        self._rates = AcceptanceRates(self._config)
        self._best_speedup = 1.0  # expected in the last search
        self._num_speculative = 0  # steps with predictions since the last one without
        self._num_plain = 0  # steps without predictions since the last one with
        self._num_failed = 0  # probes since predictions paid
        self._probed: Sequence | None = None  # by the last step
        self._is_probe_won = False  # whether its prediction was accepted
        self._idle: tuple[Seq[Sequence], int] = ((), 0)  # the last sequences and others, if no predictions paid then
        self._num_idle = 0  # steps since they have changed

    def plan(self, sequences: Seq[Sequence], most: Seq[int], size: StepSize) -> SpeculationPlan:
        """The lengths for sequences that can take at most these numbers, and how long the step may wait for them."""
        if not sequences:
            return SpeculationPlan([])
        plan = SpeculationPlan([0] * len(sequences))
        situation = (sequences, size.num_others)
        self._num_idle = self._num_idle + 1 if situation == self._idle else 0
        if self._num_idle.bit_count() <= 1:  # ever more rarely, as a search takes time
            plan = self._choose(sequences, most, size)
        is_idle = plan.decision is Decision.NONE and any(most)
        self._idle = situation if is_idle else ((), 0)
        self.decisions[plan.decision] += 1
        is_speculative = any(plan.lengths)
        self._num_speculative = self._num_speculative + 1 if is_speculative else 0
        self._num_plain = 0 if is_speculative else self._num_plain + 1
        self._is_probe_won, self._probed = False, None
        if plan.decision is Decision.PROBE:
            self._probed = sequences[plan.lengths.index(1)]
        return plan

    def best_speedup(self, sequences: Seq[Sequence], most: Seq[int], size: StepSize) -> float:
        """The expected speedup of the best lengths, as `plan` would search them; changes nothing."""
        if not sequences or not self._passes.seconds(1):
            return 1.0
        return self._best(self._estimate(sequences, most, size), self._rates.confidence, math.inf).speedup

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """Learn from a sequence's verified predictions."""
        if sequence is self._probed and num_accepted:
            self._is_probe_won, self._num_failed = True, max(0, self._num_failed - 1)
        self._rates.observe(sequence, num_predicted, num_accepted)

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended."""
        self._rates.close(sequence)
        self._idle = ((), 0)

    def _choose(self, sequences: Seq[Sequence], most: Seq[int], size: StepSize) -> SpeculationPlan:
        config, nothing = self._config, SpeculationPlan([0] * len(sequences))
        if not self._passes.seconds(1) or self._num_speculative >= config.plain_every:
            return replace(nothing, decision=Decision.MEASURE)
        if self._regret.is_free:
            return self._rehearse(most, size)
        allowances = np.array(self._regret.left(sequences))
        step, trust, left = self._estimate(sequences, most, size), self._rates.confidence, float(allowances.min())
        step = replace(step, protected=np.flatnonzero(allowances == 0))
        best = self._best(step, trust, left)
        if best.speedup < config.least_speedup:
            step, trust = replace(step, chances=self._rates.probabilities(sequences, allowances > 0)), 0.0
            best = self._best(step, trust, left)
        self._best_speedup = best.speedup
        if best.speedup >= config.least_speedup:
            self._num_failed = 0
            return self._plan(best, step, trust, left)
        if plan := self._probe(step, left):
            return plan
        if step.times.runs_ahead and step.times.is_trusted:
            best = most_tokens_per_second(replace(step, times=PredictionTimes(step.times.sequences)))
            if best.speedup >= config.least_speedup:
                return replace(nothing, decision=Decision.LATER)
        return nothing

    def _estimate(self, sequences: Seq[Sequence], most: Seq[int], size: StepSize) -> StepEstimate:
        """Everything that the lengths depend on. While the draft's time to read a sequence is unknown, the target's is
        used, which reads as many tokens in a pass as it verifies predictions.
        """
        config, times = self._config, self._predictor.times(sequences)
        most_rows = size.num_rows + size.spare_rows
        readings = [
            len(sequence.tokens) / MOST_PREDICTIONS * self._passes.seconds(1) if each.reading is None else each.reading
            for sequence, each in zip(sequences, times.sequences, strict=True)
        ]
        horizons = [max(1, min(config.horizon, each.num_remaining)) for each in sequences]
        return StepEstimate(
            chances=self._rates.probabilities(sequences),
            most=np.array(most),
            passes=self._passes.table(most_rows)[: most_rows + 1],
            size=size,
            times=times,
            reading=config.wait_margin * np.array(readings) / horizons,
            wait_price=config.wait_margin if times.runs_ahead else 1.0,
        )

    def _best(self, step: StepEstimate, trust: float, left: float) -> BestLengths:
        """The best lengths with or without the sequences that the draft must read first, the shortest ones. The streams
        must be able to lose the part of that time that is not trusted to return; the wait limits an unknown time.
        """
        if not step.reading.any():
            return most_tokens_per_second(step)
        known = np.array([each.reading or 0.0 for each in step.times.sequences])
        shortest, risk = known.argsort(), np.empty_like(known)
        risk[shortest] = known[shortest].cumsum() * (1 - trust)
        choices = (replace(step, most=step.most * may_begin) for may_begin in (step.reading == 0, risk <= left))
        return max(map(most_tokens_per_second, choices), key=lambda best: best.speedup)

    def _plan(self, best: BestLengths, step: StepEstimate, trust: float, left: float) -> SpeculationPlan:
        begins = zip(best.lengths, step.times.sequences, strict=True)
        reading = sum(each.reading or 0.0 for length, each in begins if length)
        expected = self._config.wait_margin * (best.wait + reading) * step.times.is_trusted
        return SpeculationPlan(
            best.lengths,
            Decision.PREDICT,
            speedup=best.speedup,
            own_speedups=best.own_speedups,
            max_wait=max(expected, min(left, self._config.loss_seconds) / self._config.wait_margin),
            invested=reading * trust,
            least_chance=self._least_chance(best, step),
        )

    def _least_chance(self, best: BestLengths, step: StepEstimate) -> float:
        """The probability that a run is right below which one more prediction does not pay: the tokens that could be
        generated in its time, divided by the first position's acceptance rate.
        """
        count = len(step.most)
        verifying = step.longer[min(2 * count, len(step.longer)) - 1] / 2
        drawing = step.times.each * (1 + step.times.growth * (count - 1))
        tokens = best.speedup / step.plain * (drawing + verifying)
        return float(min(self._config.most_least_chance, tokens / step.chances[0, 0]))

    def _rehearse(self, most: Seq[int], size: StepSize) -> SpeculationPlan:
        """A fixed number of predictions, at any cost, to measure how fast they come and how good they are."""
        config, lengths = self._config, self._config.rehearsed_lengths
        length = min(lengths[self._num_speculative % len(lengths)], size.spare_rows // len(most))
        max_wait = max(config.longest_wait, config.wait_margin * self._passes.seconds(1))
        return SpeculationPlan([min(length, each) for each in most], Decision.REHEARSE, max_wait=max_wait)

    def _probe(self, step: StepEstimate, left: float) -> SpeculationPlan | None:
        """One prediction for the sequence that is read soonest, if its time is a small share of the time since the last
        step with predictions, half as large after each probe that failed. One that succeeds is followed by another, if
        there is only this sequence, as long as it has lost at most half of what it may.
        """
        if not step.most.any():
            return None
        index = int(np.where(step.most, step.reading, np.inf).argmin())
        reading = step.times.sequences[index].reading
        longest = min(left, self._config.loss_seconds) / self._config.wait_margin
        wait = longest if reading is None else min(longest, reading + step.times.delay + step.times.each)
        cost = wait + float(step.longer[0])
        is_due = cost * 2**self._num_failed <= self._config.loss_share / 2 * self._num_plain * step.plain
        is_won = self._is_probe_won and len(step.most) == 1 and left >= self._config.loss_seconds / 2
        if (reading or 0.0) >= longest or not (is_due or is_won):
            return None
        self._num_failed += cost > 0
        lengths = [int(each == index) for each in range(len(step.most))]
        return SpeculationPlan(lengths, Decision.PROBE, max_wait=longest)
