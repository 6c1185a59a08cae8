"""Predictor: the interface of a source of predictions of the target's next tokens."""

import math
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol, runtime_checkable

from services.engine.events import FollowCounts, PredictionSource
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.prediction_times import PredictionTimes


class PredictionRequest(NamedTuple):
    """A request for predictions of a sequence's next tokens."""

    sequence: Sequence

    length: int
    """The most predictions that this step can use; if it is 0, a draft pauses unless `keeps_earlier`."""

    max_wait: float = math.inf
    """Seconds that the step may wait from the first wait on; if that is infinite, the predictor limits it."""

    least_chance: float = 0.0
    """The probability that all predictions are right below which no further one is useful."""

    keeps_earlier: bool = False
    """Whether a draft that runs ahead keeps its earlier request for the sequence, or gets one, instead of a pause."""


class Predictor(Protocol):
    """Predicts sequences' next tokens. It reads sequences and never changes their tokens; wrong predictions only cost
    speed. An attached drafter also gives them blocks of the KV cache that the pass needs for its predictions.

    All methods are called by the engine thread and return at once; only the iterator of `predict` may wait, and
    `predict` itself compute, if that is on the target's device.
    """

    source: PredictionSource
    """The source under which its predictions are counted."""

    num_predictions: int
    """How many to verify in a pass if the request wants ALWAYS without a number."""

    def why_none(self, sequence: Sequence) -> str:
        """The reason for no prediction for a sequence at present; empty if there may be some."""

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        """The expected times of predictions for the sequences."""

    def predict(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
        """Begin to predict for all requests of a step; the iterator waits for the ids of each request in turn, which
        may follow `sequence.tokens`. It may be left early; ids beyond a request's length are ignored.
        """

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Follow a new sequence, or the changes of a pass, in which its tokens may have grown or been cut back; returns
        what happened between a draft and the sequence since the last call.

        Called after every pass, so that replaced tokens are first seen as a cut.
        """

    def close(self, sequence: Sequence) -> FollowCounts:
        """Forget a sequence that has ended or was dropped; returns what happened since the last `commit`."""


@runtime_checkable
class DraftPredictor(Predictor, Protocol):
    """A draft service, which may be lost and found, may share the target's cores, and may serve some sequences only."""

    @property
    def num_arrivals(self) -> int:
        """How often the draft has been linked; measurements from before the last link are void."""

    @property
    def is_busy(self) -> bool:
        """Whether it is computing on the target's own cores, and continues even if no step waits."""

    def serves(self, sequence: Sequence) -> bool:
        """Whether it predicts for the sequence, for which only one draft does.

        Only `commit`, `rest` and `close` are called for other sequences too.
        """

    def rest(self, sequence: Sequence) -> None:
        """Note that another source serves the sequence in this step: a draft on the target's cores pauses."""
