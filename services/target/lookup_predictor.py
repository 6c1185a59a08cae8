"""LookupPredictor: predicts that a text goes on as it did where it last read the same."""

from collections import defaultdict
from dataclasses import dataclass

from services.engine.events import PredictionSource
from services.engine.predictor import Predictor
from services.engine.sequence import Sequence
from services.target.context_index import ContextIndex

# The standard library's sources, looked up in themselves, go on as they did behind 30 % of the matches of one token,
# 44 % of two, 76 % of eight. From eight tokens on, what follows is right for as long as a good draft's whole run.
_SHORTEST = 2
_SHORTEST_BEFORE_DRAFT = 8
_MOST_DOUBLINGS = 3


@dataclass(slots=True)
class _Bet:
    """The latest prediction for a sequence, by its first token, and how many before it were wrong in a row."""

    position: int = 0
    token_id: int | None = None
    misses: int = 0

    def settle(self, tokens: list[int]) -> None:
        """Compare with what was drawn."""
        if self.token_id is not None and self.position < len(tokens):
            is_right = tokens[self.position] == self.token_id
            self.misses = 0 if is_right else min(self.misses + 1, _MOST_DOUBLINGS)
            self.token_id = None


class LookupPredictor:
    """A Predictor without a model: prompt lookup (Saxena 2023) with matches of any length.

    A sequence whose lookups go wrong must show twice as long a match each time, until one is right. No more is
    predicted than was matched, as a long match goes on for longer (SuffixDecoding, Oliaro et al., arXiv 2411.04975).
    """

    source = PredictionSource.LOOKUP
    num_predictions = 15  # with the row that they follow, as many as one reading of the weights serves
    num_arrivals = 0

    def __init__(self, index: ContextIndex, *, shortest_match: int) -> None:
        """`shortest_match` is in tokens; predictors with different ones may share an index."""
        self._index = index
        self._shortest_match = shortest_match
        self._bets: defaultdict[Sequence, _Bet] = defaultdict(_Bet)

    def why_none(self, sequence: Sequence) -> str:
        """Why there is no prediction: the text is new."""
        if not sequence.request.speculation.lookup:
            return "the request forbids the lookup"
        return "" if self._match(sequence)[0] else "the text does not repeat itself"

    def predict(self, sequence: Sequence, limit: int) -> list[int]:
        """What followed the latest earlier occurrence of the longest suffix; it may run into what it predicts."""
        length, end = self._match(sequence)
        count = min(limit, length)
        if count <= 0:
            return []
        repeated = sequence.tokens[end : end + count]
        token_ids = [repeated[offset % len(repeated)] for offset in range(count)]
        bet = self._bets[sequence]
        bet.position, bet.token_id = len(sequence.tokens), token_ids[0]
        return token_ids

    def commit(self, sequence: Sequence) -> None:
        """Follow the sequence's tokens."""
        if sequence.request.speculation.lookup:
            self._bets[sequence].settle(sequence.tokens)
            self._index.follow(sequence)

    def close(self, sequence: Sequence) -> None:
        """Forget the sequence."""
        self._bets.pop(sequence, None)
        self._index.close(sequence)

    def _match(self, sequence: Sequence) -> tuple[int, int]:
        """The match's length, 0 where it is too short, and the end of its earlier occurrence."""
        length, end = self._index.match(sequence)
        bet = self._bets.get(sequence)
        return (length, end) if bet and length >= self._shortest_match << bet.misses else (0, 0)


def with_lookup(draft: Predictor | None) -> list[Predictor]:
    """The predictors in the order in which they are asked: long matches, then the draft, if any, then short ones."""
    index = ContextIndex()
    short = LookupPredictor(index, shortest_match=_SHORTEST)
    if draft is None:
        return [short]
    return [LookupPredictor(index, shortest_match=_SHORTEST_BEFORE_DRAFT), draft, short]
