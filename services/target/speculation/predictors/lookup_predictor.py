"""LookupPredictor: predicts that a text goes on as it did where it last read the same."""

import math

from services.engine.events import PredictionSource
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.context_index import ContextIndex
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS


class LookupPredictor:
    """A Predictor without a model: prompt lookup (Saxena 2023) with matches of any length.

    No more is predicted than was matched: a longer match goes on for longer (SuffixDecoding, Oliaro et al., arXiv
    2411.04975), so that a wrong guess from a short one costs few rows.
    """

    source = PredictionSource.LOOKUP
    num_predictions = MOST_PREDICTIONS
    num_arrivals = 0
    is_busy = runs_ahead = False

    def __init__(self, index: ContextIndex, *, lengths: range) -> None:
        """Only matches of these lengths, in tokens, are used; predictors with different ones may share an index."""
        self._index = index
        self._lengths = lengths

    def serves(self, sequence: Sequence) -> bool:  # noqa: ARG002 - there is no other lookup of these lengths
        """All."""
        return True

    def why_none(self, sequence: Sequence) -> str:
        """Why there is no prediction: the text is new."""
        if not sequence.request.speculation.lookup:
            return "the request forbids the lookup"
        is_match = self._index.match(sequence)[0] in self._lengths
        return "" if is_match else "the text does not repeat itself"

    def catch_up(self, sequence: Sequence) -> float:  # noqa: ARG002 - it reads as the target does
        """It has read all there is."""
        return 0.0

    def wait_for(self, sequence: Sequence, count: float) -> float:  # noqa: ARG002 - it is always there
        """No time."""
        return 0.0

    def slowdown(self, num_sequences: int) -> float:  # noqa: ARG002 - as above
        """No longer."""
        return 1.0

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        """Nothing: they are found when they are needed."""

    def has_ended(self, sequence: Sequence) -> bool:  # noqa: ARG002 - as above
        """Never."""
        return False

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:  # noqa: ARG002 - as above
        """What followed the latest earlier occurrence of the longest suffix; it may run into what it predicts."""
        length, end = self._index.match(sequence)
        if length not in self._lengths:
            return []
        count = min(limit, length)
        repeated = sequence.tokens[end : end + count]
        return [repeated[offset % len(repeated)] for offset in range(count)]

    def commit(self, sequence: Sequence) -> None:
        """Follow the sequence's tokens."""
        if sequence.request.speculation.lookup:
            self._index.follow(sequence)

    def close(self, sequence: Sequence) -> None:
        """Forget the sequence."""
        self._index.close(sequence)
