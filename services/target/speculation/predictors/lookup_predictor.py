"""LookupPredictor: predicts that a text continues as it did after the last occurrence of the same tokens."""

import sys
from collections.abc import Iterator
from collections.abc import Sequence as Seq

from services.engine.config import MOST_PREDICTIONS
from services.engine.events import FollowCounts, PredictionSource
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.context_index import ContextIndex
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes
from services.target.speculation.predictors.predictor import PredictionRequest, Predictor


class LookupPredictor:
    """A Predictor without a model: prompt lookup (Saxena 2023) with matches of any length.

    It predicts no more tokens than were matched: longer matches continue for longer (SuffixDecoding, Oliaro et al.,
    arXiv 2411.04975), and a wrong guess from a short match costs few rows.
    """

    source = PredictionSource.LOOKUP
    num_predictions = MOST_PREDICTIONS

    def __init__(self, index: ContextIndex, *, lengths: range) -> None:
        """Only matches of these lengths, in tokens, are used; predictors with different ones may share an index."""
        self._index = index
        self._lengths = lengths

    def why_none(self, sequence: Sequence) -> str:
        """The reason for no prediction: the request forbids it, or there is no match of these lengths."""
        if not sequence.request.speculation.lookup:
            return "the request forbids the lookup"
        is_match = self._index.match(sequence) in self._lengths
        return "" if is_match else "the text does not repeat itself"

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        """No time: predictions are found at once."""
        return PredictionTimes([SequenceTimes()] * len(sequences))

    def predict(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
        """Predictions for each request, which take no time."""
        return (self._predict(request.sequence, request.length) if request.length else () for request in requests)

    def _predict(self, sequence: Sequence, limit: int) -> Seq[int]:
        """The tokens after the latest earlier occurrence of the longest suffix."""
        length = self._index.match(sequence)
        return self._index.after_match(sequence, min(limit, length)) if length in self._lengths else []

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Follow the sequence's tokens; there is no draft to count."""
        if sequence.request.speculation.lookup:
            self._index.follow(sequence)
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        """Forget a sequence that has ended."""
        self._index.close(sequence)
        return FollowCounts()


def with_lookup(*drafts: Predictor, long_match: int) -> list[Predictor]:
    """The predictors in the order in which they are asked: the lookup of matches of at least `long_match` tokens, the
    drafts, and the lookup of shorter matches. It is two predictors, since the one may pay when the other does not.
    """
    index, lengths = ContextIndex(), (range(long_match, sys.maxsize), range(1, long_match))
    long, short = (LookupPredictor(index, lengths=each) for each in lengths)
    return [long, *drafts, short]
