"""PredictionChain: what a draft has predicted beyond one sequence's committed tokens."""

from collections.abc import Sequence as Tokens


class PredictionChain:
    """The runs of the newest epoch, as far as they continue the committed tokens.

    A chain that the committed tokens contradict is dead: nothing more of its epoch is of use. So is one that becomes
    longer than the draft was ever allowed to run ahead.
    """

    def __init__(self, *, longest: int) -> None:
        self._longest = longest
        self.tokens: list[int] = []  # predicted, from the first token that is not committed on
        self._epoch = 0
        self._end = 0  # position behind the last run received
        self._alive = False

    def receive(
        self, *, epoch: int, position: int, token_ids: Tokens[int], tokens: Tokens[int], num_committed: int
    ) -> bool:
        """Add a run; False if it is of no use: an old epoch, a gap, at odds with the committed tokens, or late.

        The first `num_committed` of the sequence's `tokens` are committed; the others are not looked at.
        """
        if epoch > self._epoch:
            self._epoch, self._end, self._alive = epoch, position, position <= num_committed
            self.tokens.clear()
        if epoch < self._epoch or not self._alive or position != self._end:
            return False
        self._end += len(token_ids)
        overlap = max(0, min(num_committed, self._end) - position)
        agrees = list(tokens[position : position + overlap]) == list(token_ids[:overlap])
        self._alive = agrees and self._end - num_committed <= self._longest
        if not self._alive:
            self.tokens.clear()
            return False
        self.tokens.extend(token_ids[overlap:])
        return overlap < len(token_ids)

    def rewind(self) -> None:
        """Committed tokens were taken back, and with them what the chain has grown from."""
        self._alive = False
        self.tokens.clear()

    def commit(self, token_ids: Tokens[int]) -> None:
        """Follow the committed tokens' growth."""
        agreed = 0
        while agreed < min(len(self.tokens), len(token_ids)) and self.tokens[agreed] == token_ids[agreed]:
            agreed += 1
        if agreed < min(len(self.tokens), len(token_ids)):
            self._alive = False
            self.tokens.clear()
        else:
            del self.tokens[:agreed]
