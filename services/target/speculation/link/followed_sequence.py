"""FollowedSequence: a live sequence: what the draft was told of it, and what it has predicted."""

from dataclasses import dataclass

from services.draft_protocol.protocol import MAX_COMMIT
from services.engine.events import VocabularyMatch
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.draft_messages import Commit, Open, Outgoing, Window
from services.target.speculation.link.prediction_chain import PredictionChain
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS


@dataclass(slots=True)
class FollowedSequence:
    """Times are in seconds of the monotonic clock."""

    sequence: Sequence
    sequence_id: int
    chain: PredictionChain
    num_committed: int = 0
    asked_at: float = 0.0  # when the draft last was: by a commit, or the end of a pause
    is_empty: bool = False  # since then, without a prediction though some are wanted
    tells_delay: bool = False  # whether what arrives now answers what was asked last, as far as one can tell
    is_fresh: bool = True  # the draft has not caught up with it yet
    window: int = 0
    num_sent: int = 0
    window_sent: int = 0
    is_open: bool = False
    is_rewound: bool = False  # and nothing has come in the place of what was taken back
    is_released: bool = False

    @property
    def num_unsent(self) -> int:
        """Committed tokens that the draft does not know of."""
        return self.num_committed - self.num_sent

    @property
    def is_behind(self) -> bool:
        """Whether the draft has more to read than a pass commits."""
        return self.num_unsent > MOST_PREDICTIONS + 1

    def end_credit(self) -> None:
        """A commit, or a new link, ends the credit of a draft that works between passes only, once it hears of it."""
        self.window = 0

    def rewind(self) -> None:
        """Tokens were taken back. The draft hears of it with what comes in their place: what is forbidden there, which
        is what it would predict again, it does not know.
        """
        self.num_committed = len(self.sequence.tokens)
        self.num_sent = min(self.num_sent, self.num_committed)
        self.is_rewound = True
        self.chain.rewind()
        self.asked_at, self.is_empty, self.tells_delay = 0.0, False, False  # nothing to wait for

    def next_message(
        self, vocabulary: VocabularyMatch | None, *, runs_ahead: bool, num_alternates: int
    ) -> Outgoing | None:
        """What brings the draft up to date next, which counts as told; None where it is. `vocabulary` is how its tokens
        relate to the target's.
        """
        if not self.is_open:
            return self._open(vocabulary)
        if self.is_rewound and not self.num_unsent:
            return None
        has_credit = self.window != self.window_sent
        if not runs_ahead and (self.num_unsent or has_credit):
            return self._commit(grants=True)
        if self.num_unsent:
            return self._commit(grants=False)
        if not has_credit:
            return None
        self.window_sent = self.window
        return Window(self.sequence_id, self.window, num_alternates if self.window else 0)

    def _open(self, vocabulary: VocabularyMatch | None) -> Open:
        self.is_open = True
        stats = self.sequence.speculation
        stats.vocabulary = vocabulary
        stats.returns += stats.losses > stats.returns
        return Open(self.sequence_id, self.sequence)

    def _commit(self, *, grants: bool) -> Commit:
        """The next piece of what is committed, the last one with the credit if it is to grant any."""
        position = self.num_sent
        self.num_sent = min(position + MAX_COMMIT, self.num_committed)
        wanted = 0
        if grants and not self.num_unsent:
            wanted = self.window_sent = self.window
        return Commit(self.sequence_id, position, self.sequence.tokens[position : self.num_sent], wanted)
