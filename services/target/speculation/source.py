"""Source: a predictor, and the number of predictions requested from it in each step; a DraftSource has a draft."""

import logging
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from services.engine.config import MOST_PREDICTIONS
from services.engine.events import NoSpeculation, PredictionSource
from services.engine.request import SpeculationMode
from services.target.sequence.sequence import Sequence
from services.target.speculation.attached.attached_predictor import AttachedPredictor
from services.target.speculation.policy.length_controller import LengthController
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from services.target.speculation.policy.speculation_plan import Decision, SpeculationPlan, StepSize
from services.target.speculation.predictors.predictor import DraftPredictor, PredictionRequest, Predictor

logger = logging.getLogger(__name__)

_LEAST_RIGHT = {40: 0.1, 200: 0.2}  # the share of first predictions, by their number; with AUTO a bad drafter gets few
_USELESS = "%s: of the attached drafter %s only %d of %d first predictions were right: %s"


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The predictions that a step requests from a source."""

    lengths: Seq[int]
    """Predictions to verify, for each sequence."""

    automatic: SpeculationPlan
    """The controller's part of the plan."""

    own_speedups: Mapping[Sequence, float]
    """The expected speedup of each sequence for which the controller expects predictions to pay."""

    def request(self, sequence: Sequence, length: int) -> PredictionRequest:
        """The request for `length` predictions. With AUTO the step waits no longer for them than it could afford if
        they were all wrong.
        """
        if not is_automatic(sequence):
            return PredictionRequest(sequence, length)
        automatic = self.automatic
        keeps_earlier = not length and automatic.decision not in {Decision.PROBE, Decision.NONE}
        return PredictionRequest(sequence, length, automatic.max_wait, automatic.least_chance, keeps_earlier)


class Source:
    """Requests as many predictions as a request wants (ALWAYS) or, if it leaves that open (AUTO), as pay best."""

    def __init__(self, predictor: Predictor, passes: PassCost, regret: Regret, config: PolicyConfig) -> None:
        self.predictor = predictor
        self._controller = LengthController(predictor, passes, regret, config)

    @property
    def kind(self) -> PredictionSource:
        """The source under which its predictions are counted."""
        return self.predictor.source

    @property
    def is_busy(self) -> bool:
        """Whether it computes on the target's cores during the pass."""
        return False

    @property
    def is_due(self) -> bool:
        """Whether `predict` computes on the target's device, for which the step waits."""
        return False

    @property
    def drafting(self) -> float:
        """Seconds that it has computed there for this step."""
        return 0.0

    def serves(self, sequence: Sequence) -> bool:  # noqa: ARG002 - only a draft may serve some
        """Whether it predicts for the sequence."""
        return True

    @property
    def decisions(self) -> Mapping[Decision, int]:
        """How often the controller made each decision."""
        return self._controller.decisions

    def plan(self, sequences: Seq[Sequence], size: StepSize) -> SourcePlan:
        """The number of predictions to request for each sequence; those with ALWAYS come first."""
        lengths, spare_rows = [0] * len(sequences), size.spare_rows
        for index, sequence in enumerate(sequences):
            if not is_automatic(sequence):
                lengths[index] = self._max_length(sequence, spare_rows)
                spare_rows -= lengths[index]
        left_open = [each for each in sequences if is_automatic(each) and not self.predictor.why_none(each)]
        automatic = self._controller.plan(
            left_open,
            [self._max_length(sequence, spare_rows) for sequence in left_open],
            replace(
                size,
                num_rows=size.num_rows + sum(lengths),
                spare_rows=spare_rows,
                num_others=size.num_others + len(sequences) - len(left_open),
            ),
        )
        chosen = dict(zip(left_open, automatic.lengths, strict=True))
        lengths = [chosen.get(sequence, length) for sequence, length in zip(sequences, lengths, strict=True)]
        return SourcePlan(lengths, automatic, dict(zip(left_open, automatic.own_speedups, strict=False)))

    def best_speedup(self, sequences: Seq[Sequence], size: StepSize) -> float:
        """The speedup that it would bring to those of the sequences with AUTO that it serves."""
        served = [each for each in sequences if is_automatic(each) and self.serves(each)]
        chosen = [each for each in served if not self.predictor.why_none(each)]
        return self._controller.best_speedup(
            chosen,
            [self._max_length(sequence, size.spare_rows) for sequence in chosen],
            replace(size, num_others=size.num_others + len(served) - len(chosen)),
        )

    def predict(self, sequences: Seq[Sequence], plan: SourcePlan) -> Iterator[Seq[int]]:
        """Begin to predict; the iterator waits for the predictions of each sequence in turn that the plan gives any."""
        requests = [*map(plan.request, sequences, plan.lengths)]
        answers = zip(requests, self.predictor.predict(requests), strict=True)
        return (token_ids[: request.length] for request, token_ids in answers if request.length)

    def rest(self, sequence: Sequence) -> None:
        """Note that another source serves the sequence in this step."""

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
        if is_automatic(sequence) and plan.automatic.decision is Decision.NONE:
            return NoSpeculation.SLOWER, self._controller.why_none
        if is_automatic(sequence) and plan.automatic.decision is Decision.MEASURE:
            return NoSpeculation.UNAVAILABLE, "the speed without predictions was measured"
        return NoSpeculation.UNAVAILABLE, "no prediction came in time"

    def _max_length(self, sequence: Sequence, spare_rows: int) -> int:
        """The most predictions for a sequence: the last remaining token is always the target's own."""
        policy = sequence.request.speculation
        default = MOST_PREDICTIONS if is_automatic(sequence) else self.predictor.num_predictions
        asked = default if policy.num_predictions is None else policy.num_predictions
        return max(0, min(asked, sequence.num_remaining - 1, spare_rows))


class AttachedSource(Source):
    """A Source of an attached drafter, which computes between two passes of the target."""

    predictor: AttachedPredictor

    def __init__(self, predictor: AttachedPredictor, passes: PassCost, regret: Regret, config: PolicyConfig) -> None:
        super().__init__(predictor, passes, regret, config)
        self._num_verdicts = self._num_right = 0  # of first predictions
        self._is_reported = False

    def _max_length(self, sequence: Sequence, spare_rows: int) -> int:
        block = self.predictor.drafter.block
        most = super()._max_length(sequence, spare_rows)
        return most if block is None else min(most, block.most_predictions)

    @property
    def is_due(self) -> bool:
        """Whether it has rows of the last pass to read."""
        return self.predictor.is_due

    @property
    def drafting(self) -> float:
        """Seconds that it has read and drawn for this step."""
        return self.predictor.drafting

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """As that of any source; one that is hardly ever right is reported once."""
        super().settle(sequence, num_predicted, num_accepted)
        self._num_verdicts += 1
        self._num_right += num_accepted > 0
        least = _LEAST_RIGHT.get(self._num_verdicts, 0.0) * self._num_verdicts
        if self._num_right < least and not self._is_reported:
            self._is_reported = True
            drafter = self.predictor.drafter
            logger.warning(_USELESS, drafter.path, drafter.name, self._num_right, self._num_verdicts, drafter.doubts)


class DraftSource(Source):
    """A Source of a draft service, which may be lost and found, and rests where another source serves a sequence."""

    predictor: DraftPredictor

    def __init__(self, predictor: DraftPredictor, passes: PassCost, regret: Regret, config: PolicyConfig) -> None:
        super().__init__(predictor, passes, regret, config)
        self._num_arrivals = predictor.num_arrivals  # at the controller's last reset

    @property
    def is_busy(self) -> bool:
        """Whether the draft computes on the target's cores."""
        return self.predictor.is_busy

    def serves(self, sequence: Sequence) -> bool:
        """Whether the sequence was given to the draft."""
        return self.predictor.serves(sequence)

    def plan(self, sequences: Seq[Sequence], size: StepSize) -> SourcePlan:
        """As that of any source; measurements of a lost draft are forgotten first."""
        if self.predictor.num_arrivals != self._num_arrivals:
            self._num_arrivals = self.predictor.num_arrivals
            self._controller.reset()
        return super().plan(sequences, size)

    def rest(self, sequence: Sequence) -> None:
        """Pause a draft on the target's cores for a sequence that another source serves in this step."""
        self.predictor.rest(sequence)


def is_automatic(sequence: Sequence) -> bool:
    """Whether the request leaves speculation to the server (AUTO)."""
    return sequence.request.speculation.mode is SpeculationMode.AUTO
