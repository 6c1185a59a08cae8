"""Source: a predictor, and how much is asked of it in each step."""

import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.events import NoSpeculation, PredictionSource
from services.engine.request import SpeculationMode
from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.length_controller import Decision, LengthController
from services.target.speculation.policy.loss_budget import LossBudget
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.speculation_plan import AutoSequence, SpeculationPlan
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS, Predictor


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a step asks of a source."""

    lengths: Seq[int]
    """Predictions to verify, for each sequence."""

    automatic: SpeculationPlan
    """The part of it that the controller chose."""

    def max_wait(self, sequence: Sequence) -> float:
        """Seconds that the step may wait for a sequence's predictions: where it leaves the choice to us, no longer than
        it could afford if they were all wrong.
        """
        return self.automatic.max_wait if is_automatic(sequence) else math.inf


class Source:
    """Asks a predictor for what a request wants (ALWAYS) or, where it leaves that open (AUTO), for what pays best.

    In each step `plan` comes first; what it returns goes on to `observe` in the end.
    """

    def __init__(self, predictor: Predictor, passes: PassCost, budget: LossBudget, config: PolicyConfig) -> None:
        self.predictor = predictor
        self._controller = LengthController(predictor, passes, budget, config)
        self._num_arrivals = predictor.num_arrivals  # of those that the controller knows of

    @property
    def kind(self) -> PredictionSource:
        """As what its predictions are counted."""
        return self.predictor.source

    def serves(self, sequence: Sequence) -> bool:
        """Whether the sequence is its predictor's concern."""
        return self.predictor.serves(sequence)

    @property
    def decisions(self) -> Mapping[Decision, int]:
        """How often the controller chose what."""
        return self._controller.decisions

    def plan(self, sequences: Seq[Sequence], *, num_rows: int, spare_rows: int) -> SourcePlan:
        """How many predictions to ask for each sequence, in a step that has so many rows yet and room for so many more;
        those that insist come first.
        """
        if self.predictor.num_arrivals != self._num_arrivals:
            self._num_arrivals = self.predictor.num_arrivals
            self._controller.reset()
        lengths = [0] * len(sequences)
        for index, sequence in enumerate(sequences):
            if not is_automatic(sequence):
                lengths[index] = self._max_length(sequence, spare_rows)
                spare_rows -= lengths[index]
        left_open = [
            (index, AutoSequence(sequence, self._max_length(sequence, spare_rows)))
            for index, sequence in enumerate(sequences)
            if is_automatic(sequence) and not self.predictor.why_none(sequence)
        ]
        automatic = self._controller.plan(
            [each for _, each in left_open], num_rows=num_rows + sum(lengths), spare_rows=spare_rows
        )
        for (index, _), length in zip(left_open, automatic.lengths, strict=True):
            lengths[index] = length
        return SourcePlan(lengths, automatic)

    def predict(self, sequence: Sequence, length: int, *, until: float) -> Seq[int]:
        """At most so many predictions that were asked for, after a wait until that moment of the monotonic clock."""
        return self.predictor.predict(sequence, length, until=until)[:length]

    def ask(self, sequence: Sequence, length: int, plan: SourcePlan) -> None:
        """The predictor may begin with so many, or stop where it is 0, unless what it was asked before still stands."""
        if length or not (plan.automatic.keeps_asking and is_automatic(sequence)):
            self.predictor.ask(sequence, length, plan.automatic.least_chance if is_automatic(sequence) else 0.0)

    def rest(self, sequence: Sequence) -> None:
        """Another source serves the sequence for now: a draft must not run ahead on cores that the target needs."""
        if not self.predictor.runs_ahead:
            self.predictor.ask(sequence, 0)

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """Its predictions for a sequence were verified."""
        has_ended = self.predictor.has_ended(sequence)
        self._controller.settle(sequence, num_predicted, num_accepted, has_ended=has_ended)

    def observe(self, plan: SourcePlan) -> None:
        """A step over sequences that leave the choice to us has ended."""
        self._controller.observe(plan.automatic)

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence."""
        self.predictor.close(sequence)
        self._controller.close(sequence)

    def why_none(self, sequence: Sequence, plan: SourcePlan) -> tuple[NoSpeculation, str]:
        """Why it predicted nothing for a sequence in the step that was planned so."""
        if reason := self.predictor.why_none(sequence):
            return NoSpeculation.UNAVAILABLE, reason
        if is_automatic(sequence) and not plan.automatic.is_speculative and not plan.automatic.keeps_asking:
            return NoSpeculation.SLOWER, self._controller.why_none
        return NoSpeculation.UNAVAILABLE, "no prediction came in time"

    def _max_length(self, sequence: Sequence, spare_rows: int) -> int:
        """The last place of what remains is the target's own."""
        policy = sequence.request.speculation
        default = MOST_PREDICTIONS if is_automatic(sequence) else self.predictor.num_predictions
        asked = default if policy.num_predictions is None else policy.num_predictions
        return max(0, min(asked, sequence.num_remaining - 1, spare_rows))


def is_automatic(sequence: Sequence) -> bool:
    """Whether the request leaves it to the server to speculate."""
    return sequence.request.speculation.mode is SpeculationMode.AUTO
