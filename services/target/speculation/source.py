"""Source: a predictor, and the number of predictions requested from it in each step."""

import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.config import MOST_PREDICTIONS
from services.engine.events import NoSpeculation, PredictionSource
from services.engine.request import SpeculationMode
from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.length_controller import Decision, LengthController
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from services.target.speculation.policy.speculation_plan import SpeculationPlan, StepSize
from services.target.speculation.predictors.predictor import Predictor


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The predictions that a step requests from a source."""

    lengths: Seq[int]
    """Predictions to verify, for each sequence."""

    automatic: SpeculationPlan
    """The controller's part of the plan."""

    own_speedups: Mapping[Sequence, float]
    """The expected speedup of each sequence for which the controller expects predictions to pay."""

    def max_wait(self, sequence: Sequence) -> float:
        """Seconds that the step may wait for a sequence's predictions: with AUTO, no longer than it could afford if
        they were all wrong.
        """
        return self.automatic.max_wait if is_automatic(sequence) else math.inf


class Source:
    """Requests as many predictions as a request wants (ALWAYS) or, if it leaves that open (AUTO), as pay best."""

    def __init__(self, predictor: Predictor, passes: PassCost, regret: Regret, config: PolicyConfig) -> None:
        self.predictor = predictor
        self._controller = LengthController(predictor, passes, regret, config)
        self._num_arrivals = predictor.num_arrivals  # at the controller's last reset

    @property
    def kind(self) -> PredictionSource:
        """The source under which its predictions are counted."""
        return self.predictor.source

    def serves(self, sequence: Sequence) -> bool:
        """Whether the predictor predicts for the sequence."""
        return self.predictor.serves(sequence)

    @property
    def decisions(self) -> Mapping[Decision, int]:
        """How often the controller made each decision."""
        return self._controller.decisions

    def plan(self, sequences: Seq[Sequence], size: StepSize) -> SourcePlan:
        """The number of predictions to request for each sequence; those with ALWAYS come first."""
        if self.predictor.num_arrivals != self._num_arrivals:
            self._num_arrivals = self.predictor.num_arrivals
            self._controller.reset()
        lengths, spare_rows = [0] * len(sequences), size.spare_rows
        for index, sequence in enumerate(sequences):
            if not is_automatic(sequence):
                lengths[index] = self._max_length(sequence, spare_rows)
                spare_rows -= lengths[index]
        left_open = [each for each in sequences if is_automatic(each) and not self.predictor.why_none(each)]
        automatic = self._controller.plan(
            left_open,
            [self._max_length(sequence, spare_rows) for sequence in left_open],
            StepSize(size.num_rows + sum(lengths), spare_rows, size.num_others + len(sequences) - len(left_open)),
        )
        chosen = dict(zip(left_open, automatic.lengths, strict=True))
        lengths = [chosen.get(sequence, length) for sequence, length in zip(sequences, lengths, strict=True)]
        return SourcePlan(lengths, automatic, dict(zip(left_open, automatic.own_speedups, strict=False)))

    def predict(self, sequence: Sequence, length: int, *, until: float) -> Seq[int]:
        """At most `length` of the requested predictions, after a wait until at most `until`, on the monotonic clock."""
        return self.predictor.predict(sequence, length, until=until)[:length]

    def ask(self, sequence: Sequence, length: int, plan: SourcePlan) -> None:
        """Request `length` predictions, or none if it is 0, unless the plan keeps an earlier request."""
        if not length and plan.automatic.keeps_asking and is_automatic(sequence):
            self.predictor.keep(sequence)
        else:
            self.predictor.ask(sequence, length, plan.automatic.least_chance if is_automatic(sequence) else 0.0)

    def rest(self, sequence: Sequence) -> None:
        """Pause a draft on the target's cores for a sequence that another source serves in this step."""
        if not self.predictor.runs_ahead:
            self.predictor.ask(sequence, 0)

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """Learn from its verified predictions for a sequence."""
        self._controller.settle(sequence, num_predicted, num_accepted)

    def follow(self, sequence: Sequence) -> None:
        """Let the predictor follow the sequence's changes, and count what happened between a draft and the sequence."""
        sequence.speculation.follow(self.predictor.commit(sequence))

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended."""
        sequence.speculation.follow(self.predictor.close(sequence))
        self._controller.close(sequence)

    def why_none(self, sequence: Sequence, plan: SourcePlan) -> tuple[NoSpeculation, str]:
        """The reason for no predictions for a sequence in the step with this plan."""
        if reason := self.predictor.why_none(sequence):
            return NoSpeculation.UNAVAILABLE, reason
        if is_automatic(sequence) and not any(plan.automatic.lengths) and not plan.automatic.keeps_asking:
            return NoSpeculation.SLOWER, self._controller.why_none
        return NoSpeculation.UNAVAILABLE, "no prediction came in time"

    def _max_length(self, sequence: Sequence, spare_rows: int) -> int:
        """The most predictions for a sequence: the last remaining token is always the target's own."""
        policy = sequence.request.speculation
        default = MOST_PREDICTIONS if is_automatic(sequence) else self.predictor.num_predictions
        asked = default if policy.num_predictions is None else policy.num_predictions
        return max(0, min(asked, sequence.num_remaining - 1, spare_rows))


def is_automatic(sequence: Sequence) -> bool:
    """Whether the request leaves speculation to the server (AUTO)."""
    return sequence.request.speculation.mode is SpeculationMode.AUTO
