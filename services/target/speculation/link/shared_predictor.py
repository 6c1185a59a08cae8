"""SharedPredictor: one of a target's several drafts, as the predictor of the sequences that were given to it."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from services.engine.events import FollowCounts, PredictionSource
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.draft_spread import DraftSpread
from services.target.speculation.link.remote_predictor import RemotePredictor
from services.target.speculation.predictors.prediction_times import PredictionTimes
from services.target.speculation.predictors.predictor import PredictionRequest


class SharedPredictor:
    """A DraftPredictor that ignores the sequences of other drafts."""

    source = PredictionSource.DRAFT

    def __init__(self, remote: RemotePredictor, spread: DraftSpread) -> None:
        self._remote, self._spread = remote, spread
        self.num_predictions = remote.num_predictions

    @property
    def num_arrivals(self) -> int:
        """How often the draft has been linked."""
        return self._remote.num_arrivals

    @property
    def is_busy(self) -> bool:
        """Whether a draft on the target's cores has not answered yet."""
        return self._remote.is_busy

    def serves(self, sequence: Sequence) -> bool:
        """Whether the sequence was given to this draft."""
        return self._spread.draft_of(sequence) is self._remote

    def why_none(self, sequence: Sequence) -> str:
        """The reason for no prediction for one of its sequences."""
        return self._remote.why_none(sequence)

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        """The expected times of predictions for its own sequences."""
        return self._remote.times(sequences)

    def predict(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
        """Predictions for its own sequences."""
        return self._remote.predict(requests)

    def rest(self, sequence: Sequence) -> None:
        """Pause a draft on the target's cores, if the sequence is its own."""
        if self.serves(sequence):
            self._remote.rest(sequence)

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Follow a sequence's changes; a sequence without a linked draft is given to one first."""
        counts = self._spread.place(sequence)
        return counts + self._remote.commit(sequence) if self.serves(sequence) else counts

    def close(self, sequence: Sequence) -> FollowCounts:
        """Forget a sequence that has ended or was dropped, if it is its own."""
        return self._spread.forget(sequence) if self.serves(sequence) else FollowCounts()
