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
        self._contradicted: tuple[int, int] | None = None  # epoch of the last one, wrong token
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
            self._die()
            self._epoch, self._end, self._alive = run.epoch, position, position <= num_committed
        if run.epoch < self._epoch or not self._alive or position != self._end:
            return False
        self._end += len(run.token_ids)
        committed = tokens[position : min(num_committed, self._end)]
        agreed = _num_equal(committed, run.token_ids)
        if agreed < len(committed):
            self._contradicted = self._epoch, position + agreed
        if agreed < len(committed) or self._end - num_committed > self._longest:
            self._die()
            return False
        self.tokens.extend(run.token_ids[agreed:])
        self.ends = run.ends
        return agreed < len(run.token_ids)

    def receive_alternate(self, alternate: AlternatePrediction, *, tokens: Seq[int], num_committed: int) -> bool:
        """Add what follows if the token at a position is this one; False if it is of no use."""
        position, token_id, token_ids = alternate.position, alternate.token_id, alternate.token_ids
        if alternate.epoch <= self._epoch or not token_ids or len(token_ids) > self._longest:
            return False
        if position < num_committed:  # the question was decided while this was on its way
            run = Prediction(alternate.sequence_id, alternate.epoch, position + 1, token_ids)
            is_meant = self._is_contradicted(alternate) and tokens[position] == token_id
            return is_meant and self.receive(run, tokens=tokens, num_committed=num_committed)
        is_of_chain = self._alive and alternate.from_epoch in {0, self._epoch}
        is_news = (position, token_id) not in self._alternates
        is_over = is_news and len(self._alternates) >= _MOST_ALTERNATES
        if not is_of_chain or is_over or position >= num_committed + self._longest:
            return False
        self._alternates[position, token_id] = (alternate.epoch, [*token_ids])
        return is_news

    def rewind(self) -> None:
        """Committed tokens were taken back, and with them what the chain has grown from."""
        self._num_runs = 0
        self.ends = False
        self._contradicted = None
        self._die()

    def commit(self, token_ids: Seq[int], *, num_committed: int) -> bool:
        """Follow the tokens' growth, from `num_committed` on; True if an alternate has taken the chain's place."""
        self._num_runs = 0
        self.ends = False
        agreed = _num_equal(self.tokens, token_ids)
        if agreed == min(len(self.tokens), len(token_ids)):
            del self.tokens[:agreed]
            self._forget_before(num_committed + len(token_ids))
            return False
        position = num_committed + agreed
        meant = self._alternates.get((position, token_ids[agreed]))
        self._contradicted = self._epoch, position
        self._die()
        if meant is None or agreed < len(token_ids) - 1:
            return False
        self._epoch, self.tokens = meant
        self._end, self._alive = position + 1 + len(self.tokens), True
        return True

    def _is_contradicted(self, alternate: AlternatePrediction) -> bool:
        """Whether it is for the token that has contradicted a chain, and for that chain."""
        if self._contradicted is None:
            return False
        epoch, position = self._contradicted
        return alternate.position == position and alternate.from_epoch in {0, epoch}

    def _die(self) -> None:
        """The alternates go too: they branch off this chain."""
        self._alive = False
        self.tokens = []
        self._alternates.clear()

    def _forget_before(self, position: int) -> None:
        self._alternates = {key: value for key, value in self._alternates.items() if key[0] >= position}


def _num_equal(ours: Seq[int], theirs: Seq[int]) -> int:
    """How many tokens two texts begin with that are the same."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
