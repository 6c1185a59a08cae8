"""LookupPredictor: predicts that a text continues as it did after the last occurrence of the same tokens."""

import math

from services.engine.events import FollowCounts, PredictionSource
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.context_index import ContextIndex
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS


class LookupPredictor:
    """A Predictor without a model: prompt lookup (Saxena 2023) with matches of any length.

    It predicts no more tokens than were matched: longer matches continue for longer (SuffixDecoding, Oliaro et al.,
    arXiv 2411.04975), and a wrong guess from a short match costs few rows.
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
        """True: it serves every sequence."""
        return True

    def why_none(self, sequence: Sequence) -> str:
        """The reason for no prediction: the request forbids it, or there is no match of these lengths."""
        if not sequence.request.speculation.lookup:
            return "the request forbids the lookup"
        is_match = self._index.match(sequence)[0] in self._lengths
        return "" if is_match else "the text does not repeat itself"

    def catch_up(self, sequence: Sequence) -> float:  # noqa: ARG002 - it reads as the target does
        """0: it reads tokens as they are committed."""
        return 0.0

    def wait_for(self, sequence: Sequence, count: float) -> float:  # noqa: ARG002 - it is always there
        """0: its predictions are found at once."""
        return 0.0

    def slowdown(self, num_sequences: int) -> float:  # noqa: ARG002 - as above
        """1: it takes no longer for several sequences."""
        return 1.0

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        """Do nothing: predictions are found when they are needed."""

    def has_ended(self, sequence: Sequence) -> bool:  # noqa: ARG002 - as above
        """False: it never ends a run early by itself."""
        return False

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:  # noqa: ARG002 - as above
        """The tokens after the latest earlier occurrence of the longest suffix, repeated if that reaches the end."""
        length, end = self._index.match(sequence)
        if length not in self._lengths:
            return []
        count = min(limit, length)
        repeated = sequence.tokens[end : end + count]
        return [repeated[offset % len(repeated)] for offset in range(count)]

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Follow the sequence's tokens; there is no draft to count."""
        if sequence.request.speculation.lookup:
            self._index.follow(sequence)
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        """Forget a sequence that has ended."""
        self._index.close(sequence)
        return FollowCounts()
