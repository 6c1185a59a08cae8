"""PredictionChain: what a draft has predicted beyond one sequence's committed tokens."""

from collections.abc import Sequence as Seq

from services.draft_protocol.messages import AlternatePrediction, Prediction

_MOST_ALTERNATES = 32  # that are kept, whatever a draft sends
_MOST_RUNS = 64  # between two commits, at a token each as many as a window can grant


class PredictionChain:
    """The runs of the newest epoch, as far as they continue the committed tokens.

    A chain that the committed tokens contradict is dead: nothing more of its epoch is of use. So is one that becomes
    longer than the draft was ever allowed to run ahead. An alternate for the very token that contradicts a chain takes
    its place. A draft that says more between two commits than there is to say, epoch upon epoch, is not heard.
    """

    def __init__(self, *, longest: int) -> None:
        self._longest = longest
        self.tokens: list[int] = []  # predicted, from the first token that is not committed on
        self.ends = False  # whether the draft has said that there is no more to wait for
        self._epoch = 0
        self._end = 0  # position behind the last run received
        self._alive = False
        self._num_runs = 0  # since the last commit
        self._alternates: dict[tuple[int, int], tuple[int, list[int]]] = {}  # position, token: epoch, what follows

    def receive(self, run: Prediction, *, tokens: Seq[int], num_committed: int) -> bool:
        """Add a run; False if it is of no use: an old epoch, a gap, at odds with the committed tokens, or late.

        The first `num_committed` of the sequence's `tokens` are committed; the others are not looked at.
        """
        position = run.position
        self._num_runs += 1
        if self._num_runs > _MOST_RUNS:
            return False
        if run.epoch > self._epoch:
            self._epoch, self._end, self._alive = run.epoch, position, position <= num_committed
            self.tokens.clear()
            self._alternates.clear()  # they branch off a chain that the draft has left
        if run.epoch < self._epoch or not self._alive or position != self._end:
            return False
        self._end += len(run.token_ids)
        overlap = max(0, min(num_committed, self._end) - position)
        agrees = list(tokens[position : position + overlap]) == list(run.token_ids[:overlap])
        self._alive = agrees and self._end - num_committed <= self._longest
        if not self._alive:
            self.tokens.clear()
            return False
        self.tokens.extend(run.token_ids[overlap:])
        self.ends = run.ends
        return overlap < len(run.token_ids)

    def receive_alternate(self, alternate: AlternatePrediction, *, tokens: Seq[int], num_committed: int) -> bool:
        """Add what follows if the token at a position is this one; False if it is of no use."""
        position, token_id, token_ids = alternate.position, alternate.token_id, alternate.token_ids
        if alternate.epoch <= self._epoch or not token_ids or len(token_ids) > self._longest:
            return False
        if position < num_committed:  # the question was decided while this was on its way
            run = Prediction(alternate.sequence_id, alternate.epoch, position + 1, token_ids)
            return tokens[position] == token_id and self.receive(run, tokens=tokens, num_committed=num_committed)
        is_news = (position, token_id) not in self._alternates
        is_over = is_news and len(self._alternates) >= _MOST_ALTERNATES
        if is_over or position >= num_committed + self._longest:
            return False
        self._alternates[position, token_id] = (alternate.epoch, [*token_ids])
        return is_news

    def rewind(self) -> None:
        """Committed tokens were taken back, and with them what the chain has grown from."""
        self._alive = self.ends = False
        self._num_runs = 0
        self.tokens.clear()
        self._alternates.clear()

    def commit(self, token_ids: Seq[int], *, num_committed: int) -> bool:
        """Follow the tokens' growth, from `num_committed` on; True if an alternate has taken the chain's place."""
        self._num_runs = agreed = 0
        self.ends = False
        while agreed < min(len(self.tokens), len(token_ids)) and self.tokens[agreed] == token_ids[agreed]:
            agreed += 1
        is_contradicted = agreed < min(len(self.tokens), len(token_ids))
        meant = self._alternates.get((num_committed + agreed, token_ids[agreed])) if is_contradicted else None
        if not is_contradicted:
            del self.tokens[:agreed]
            self._forget_before(num_committed + len(token_ids))
        elif meant is not None and agreed == len(token_ids) - 1:
            self._epoch, self.tokens = meant
            self._end = num_committed + len(token_ids) + len(self.tokens)
            self._alternates.clear()
            return True
        else:
            self.rewind()
        return False

    def _forget_before(self, position: int) -> None:
        self._alternates = {key: value for key, value in self._alternates.items() if key[0] >= position}
