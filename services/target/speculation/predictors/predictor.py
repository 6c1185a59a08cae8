"""Predictor: the interface of a source of predictions of the target's next tokens."""

from collections.abc import Sequence as Seq
from typing import Protocol

from services.engine.events import FollowCounts, PredictionSource
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.prediction_times import PredictionTimes


class Predictor(Protocol):
    """Predicts a sequence's next tokens. It reads sequences and never changes them; wrong predictions only cost speed.

    All methods are called by the engine thread; `predict` may wait for predictions that are under way, the others
    return at once.
    """

    source: PredictionSource
    """The source under which its predictions are counted."""

    num_predictions: int
    """How many to verify in a pass if the request wants ALWAYS without a number."""

    @property
    def num_arrivals(self) -> int:
        """How often its draft has been linked; measurements from before the last link are void."""

    @property
    def is_busy(self) -> bool:
        """Whether it is computing on the target's own cores, and continues even if no step waits."""

    @property
    def runs_ahead(self) -> bool:
        """Whether it computes elsewhere while the target computes, so that missing predictions come a pass later."""

    def serves(self, sequence: Sequence) -> bool:
        """Whether it predicts for the sequence, for which only one draft does.

        Only `commit`, `ask` and `close` are called for other sequences too.
        """

    def why_none(self, sequence: Sequence) -> str:
        """The reason for no prediction for a sequence at present; empty if there may be some."""

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        """The expected times of predictions for sequences that it serves."""

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        """Request `limit` predictions, or none for now; `send` is called after the requests for all sequences.

        A draft may stop when the probability that all of them are right falls below `least_chance`.
        """

    def keep(self, sequence: Sequence) -> None:
        """Keep the last request, or request some predictions if that was for none."""

    def send(self) -> None:
        """Send all requests together, so that a draft serves them in the same passes."""

    def predict(self, sequence: Sequence, limit: int, *, until: float) -> Seq[int]:
        """At most `limit` of the requested ids that may follow `sequence.tokens`; it waits no longer than `until`, on
        the monotonic clock.
        """

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Follow a new sequence, or the changes of a pass, in which its tokens may have grown or been cut back; returns
        what happened between a draft and the sequence since the last call.

        Called after every pass, so that replaced tokens are first seen as a cut.
        """

    def close(self, sequence: Sequence) -> FollowCounts:
        """Forget a sequence that has ended or was dropped; returns what happened since the last `commit`."""
