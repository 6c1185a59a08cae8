"""PredictionChain: a draft's predictions after one sequence's committed tokens."""

from collections.abc import Sequence as Seq

from services.draft_protocol.messages import AlternatePrediction, Prediction

_MOST_ALTERNATES = 32  # kept, however many a draft sends
_MOST_RUNS = 64  # between two commits: a full window in runs of one token


class PredictionChain:
    """The runs of the newest epoch, as far as they continue the committed tokens.

    A chain that the committed tokens contradict is dead: further runs of its epoch are useless. So is a chain that
    becomes longer than the draft was ever allowed to run ahead. An alternate for the token that contradicts a chain
    replaces it. Runs beyond the possible number between two commits, as in a flood of epochs, are ignored.
    """

    def __init__(self, *, longest: int) -> None:
        self._longest = longest
        self.tokens: list[int] = []  # the predictions, from the first token that is not committed
        self.ends = False  # whether the draft sends no more before the next commit
        self._epoch = 0
        self._end = 0  # position after the last run received
        self._alive = False
        self._contradicted: tuple[int, int] | None = None  # the last dead chain's epoch and the wrong token's position
        self._num_runs = 0  # since the last commit
        self._alternates: dict[tuple[int, int], tuple[int, list[int]]] = {}  # position, token: epoch, next tokens

    def receive(self, run: Prediction, *, tokens: Seq[int], num_committed: int) -> bool:
        """Add a run; False if it is useless: of an old epoch, after a gap, contradicted by committed tokens, or late.

        The first `num_committed` of the sequence's `tokens` are committed; the others are not read.
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
        """Add an alternate; False if it is useless."""
        position, token_id, token_ids = alternate.position, alternate.token_id, alternate.token_ids
        if alternate.epoch <= self._epoch or not token_ids or len(token_ids) > self._longest:
            return False
        if position < num_committed:  # the position was committed while this was under way
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
        """Drop the chain, since committed tokens that it continues were taken back."""
        self._num_runs = 0
        self.ends = False
        self._contradicted = None
        self._die()

    def commit(self, token_ids: Seq[int], *, num_committed: int) -> bool:
        """Take newly committed tokens, from `num_committed` on; True if an alternate has replaced the chain."""
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
        """Whether an alternate is for the token that contradicted a chain, and branches off that chain."""
        if self._contradicted is None:
            return False
        epoch, position = self._contradicted
        return alternate.position == position and alternate.from_epoch in {0, epoch}

    def _die(self) -> None:
        """Drop the chain, and its alternates, which branch off it."""
        self._alive = False
        self.tokens = []
        self._alternates.clear()

    def _forget_before(self, position: int) -> None:
        self._alternates = {key: value for key, value in self._alternates.items() if key[0] >= position}


def _num_equal(ours: Seq[int], theirs: Seq[int]) -> int:
    """The length of two lists' common prefix."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
