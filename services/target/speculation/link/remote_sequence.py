"""RemoteSequence: a live sequence's state on the link to a draft: two state machines.

`Phase` is what the draft knows of the sequence, and determines the next message. In parentheses are the messages that
are sent in the state, or on leaving it:

    phase     | a message is sent         | it predicts | a pause ends            | it releases | the link ends
    ----------+---------------------------+-------------+-------------------------+-------------+--------------
    UNOPENED  | READING (Open) *          | refused     | UNOPENED                | RELEASED    | UNOPENED
    READING   | READING (Commit, Window)  | FOLLOWED    | READING                 | RELEASED    | UNOPENED
    FOLLOWED  | FOLLOWED (Commit, Window) | FOLLOWED    | READING if it lags      | RELEASED    | UNOPENED
    RELEASED  | RELEASED (nothing)        | refused     | RELEASED                | refused     | UNOPENED

    * FOLLOWED if the draft works only between passes and has no more to read than a pass commits.

When a sequence ends, a Close is sent in READING and FOLLOWED, and no message in the other states. After the link's end
a sequence continues under an id that no link has used.

`Answer` is whether the next predictions measure the draft's delay since it was asked for them, by a commit or by the
end of a pause:

    answer  | a commit leaves predictions | none, credit | none, paused | a pause ends | a step waits | they come
    --------+-----------------------------+--------------+--------------+--------------+--------------+----------
    UNTIMED | UNTIMED                     | AWAITED      | TIMED        | OVERDUE **   | TIMED        | UNTIMED
    TIMED   | UNTIMED                     | AWAITED      | TIMED        | AWAITED      | TIMED        | TIMED
    AWAITED | UNTIMED                     | OVERDUE      | UNTIMED      | AWAITED      | AWAITED      | TIMED
    OVERDUE | UNTIMED                     | OVERDUE      | UNTIMED      | OVERDUE **   | AWAITED      | UNTIMED
    REWOUND | UNTIMED                     | AWAITED      | TIMED        | REWOUND      | REWOUND      | REWOUND

    ** AWAITED with a draft that runs ahead: after a pause it has no predictions under way.

In every state, tokens that are taken back lead to REWOUND if the draft has them, and otherwise to UNTIMED, as do a
release and the link's end. No message is sent in REWOUND: the draft learns of it from the commit that replaces the old
tokens. Until then it would predict the same tokens again, since it does not know which tokens are forbidden there.
"""

import time
from dataclasses import dataclass
from enum import Enum, auto

from services.draft_protocol.messages import Commit, Open, TargetMessage, Window
from services.draft_protocol.protocol import MAX_COMMIT
from services.engine.config import MOST_PREDICTIONS
from services.engine.events import FollowCounts, VocabularyMatch
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.prediction_chain import PredictionChain


class Phase(Enum):
    """What the draft knows of a sequence."""

    UNOPENED = auto()  # it was not opened on this link
    READING = auto()  # the draft has not caught up with it
    FOLLOWED = auto()
    RELEASED = auto()  # the draft has dropped it


class Answer(Enum):
    """What the next predictions are, and whether they measure the draft's delay."""

    UNTIMED = auto()  # not needed yet; they measure nothing, since they may have been under way before
    TIMED = auto()  # not needed yet; they measure the delay
    AWAITED = auto()  # needed, since there are none; they measure the delay
    OVERDUE = auto()  # requested again before any came; they measure nothing, since they may answer the first request
    REWOUND = auto()  # useless: they continue tokens that were taken back

    @property
    def is_timed(self) -> bool:
        """Whether the next predictions measure the draft's delay."""
        return self in {Answer.TIMED, Answer.AWAITED}

    @property
    def is_awaited(self) -> bool:
        """Whether predictions were requested and none have come."""
        return self in {Answer.AWAITED, Answer.OVERDUE}


@dataclass(frozen=True, slots=True)
class LinkTerms:
    """How the draft works on one link."""

    run_ahead: int = 0  # credit beyond what the next pass can verify; with 0 the draft works only between passes
    num_alternates: int = 0  # the number of its next predictions that have one
    vocabulary: VocabularyMatch | None = None  # how its vocabulary matches the target's


class RemoteSequence:
    """The state of one sequence on a link. Times are in seconds on the monotonic clock. Not thread-safe."""

    def __init__(self, sequence: Sequence, sequence_id: int, terms: LinkTerms, *, window: int) -> None:
        self.sequence = sequence
        self.sequence_id = sequence_id
        self.terms = terms
        self.phase = Phase.UNOPENED
        self.answer = Answer.UNTIMED
        self.asked_at = 0.0
        self.window = window
        self.window_sent = 0
        self.least_chance = 0.0  # the draft stops when the probability that all predictions are right falls below this
        self.num_committed = 0
        self.num_sent = 0  # leading tokens that the draft has and that are still committed
        self.chain = self._new_chain()
        self.dropped = ""  # why the draft has dropped the sequence on this link; empty if it has not
        self._counts = FollowCounts()

    @property
    def is_open(self) -> bool:
        """Whether the draft follows the sequence, or is reading it."""
        return self.phase in {Phase.READING, Phase.FOLLOWED}

    @property
    def is_reading(self) -> bool:
        """Whether the draft must read tokens before its next prediction."""
        return self.phase is Phase.READING or (self.phase is Phase.UNOPENED and self._is_long)

    @property
    def is_rewound(self) -> bool:
        """Whether tokens that the draft has were taken back: it answers only after the commit that replaces them."""
        return self.answer is Answer.REWOUND

    @property
    def num_unsent(self) -> int:
        """The number of committed tokens that the draft does not have."""
        return self.num_committed - self.num_sent

    @property
    def is_behind(self) -> bool:
        """Whether the draft lags: it has more to read than a pass commits."""
        return self.num_unsent > MOST_PREDICTIONS + 1

    def commit(self) -> bool:
        """Take the sequence's changes, growth or tokens taken back; True if a message is to be sent now."""
        num_before, self.num_committed = self.num_committed, len(self.sequence.tokens)
        if self.num_committed > num_before:
            self._grow(num_before)
            return self.window > 0  # else the commit is sent when predictions are wanted again
        if self.num_committed < num_before:
            self._rewind()
        return False

    def end_pause(self) -> bool:
        """Give the draft credit again; True if that requests predictions."""
        if self.phase is Phase.RELEASED or self.answer is Answer.REWOUND:
            return False
        self.asked_at = time.monotonic()
        is_timed = self.answer.is_timed or self.terms.run_ahead > 0
        self.answer = Answer.AWAITED if is_timed else Answer.OVERDUE
        if self.phase is Phase.FOLLOWED and self.is_behind:
            self.phase = Phase.READING
        return True

    def wait(self) -> None:
        """Note that a step waits: the next predictions are taken for the answer to the last request."""
        self.answer = {Answer.UNTIMED: Answer.TIMED, Answer.OVERDUE: Answer.AWAITED}.get(self.answer, self.answer)

    def arrive(self) -> None:
        """Note that useful predictions have come."""
        self.phase = Phase.FOLLOWED
        self.answer = {Answer.AWAITED: Answer.TIMED, Answer.OVERDUE: Answer.UNTIMED}.get(self.answer, self.answer)

    def release(self, reason: str) -> None:
        """Note that the draft has dropped the sequence."""
        self._lose(Phase.RELEASED)
        self.dropped = f"the draft dropped the sequence: {reason}"

    def disconnect(self, next_id: int) -> None:
        """Reset the state at the end of the link; the next one uses an id that no link has used."""
        self._lose(Phase.UNOPENED)
        self.sequence_id = next_id
        self.num_sent = self.window_sent = 0
        self.dropped = ""

    def connect(self, terms: LinkTerms) -> None:
        """Begin on a new link; a draft that works only between passes begins without credit."""
        self.terms, self.answer = terms, Answer.UNTIMED
        self.chain = self._new_chain()
        self._end_credit()

    def take_counts(self) -> FollowCounts:
        """Return what happened since the last call."""
        counts, self._counts = self._counts, FollowCounts()
        return counts

    def next_message(self) -> TargetMessage | None:
        """The next message that brings the draft up to date, which counts as sent; None if it is up to date."""
        if self.phase is Phase.UNOPENED:
            return self._open()
        if self.phase is Phase.RELEASED or self.answer is Answer.REWOUND:
            return None
        has_credit = self.window != self.window_sent
        if self.num_unsent or (has_credit and not self.terms.run_ahead):
            return self._commit()
        if not has_credit:
            return None
        self.window_sent = self.window
        return Window(self.sequence_id, self.window, self.terms.num_alternates if self.window else 0)

    @property
    def _is_long(self) -> bool:
        """Whether the draft has much to read at first; one that runs ahead reads while the target prefills."""
        return self.terms.run_ahead > 0 or self.is_behind

    def _grow(self, num_before: int) -> None:
        if self.chain.commit(self.sequence.tokens[num_before:], num_committed=num_before):
            self._counts += FollowCounts(alternates=1)
        self._end_credit()
        self.asked_at = time.monotonic()
        if self.phase is Phase.FOLLOWED and self.is_behind:  # by tokens that the request expected
            self.phase = Phase.READING
        if self.chain.tokens or self.phase is Phase.RELEASED:
            self.answer = Answer.UNTIMED
        elif self.window:
            self.answer = Answer.OVERDUE if self.answer.is_awaited else Answer.AWAITED
        else:
            self.answer = Answer.UNTIMED if self.answer.is_awaited else Answer.TIMED

    def _rewind(self) -> None:
        self.num_sent = min(self.num_sent, self.num_committed)
        self.chain.rewind()
        self.answer = Answer.UNTIMED if self.num_unsent else Answer.REWOUND
        self.asked_at = 0.0  # nothing to wait for

    def _lose(self, phase: Phase) -> None:
        self._counts += FollowCounts(losses=int(self.is_open))
        self.phase, self.answer = phase, Answer.UNTIMED
        self.chain = self._new_chain()

    def _new_chain(self) -> PredictionChain:
        asked = self.sequence.request.speculation.num_predictions
        return PredictionChain(longest=(MOST_PREDICTIONS if asked is None else asked) + self.terms.run_ahead)

    def _end_credit(self) -> None:
        """End the credit of a draft that works only between passes, at a commit or on a new link."""
        if not self.terms.run_ahead:
            self.window = 0

    def _open(self) -> Open:
        self.phase = Phase.READING if self._is_long else Phase.FOLLOWED
        self._counts += FollowCounts(opens=1, vocabulary=self.terms.vocabulary)
        return Open.of(self.sequence_id, self.sequence.request)

    def _commit(self) -> Commit:
        """The next piece of the committed tokens; the last one grants credit to a draft that works between passes."""
        position = self.num_sent
        self.num_sent = min(position + MAX_COMMIT, self.num_committed)
        wanted = 0
        if not self.terms.run_ahead and not self.num_unsent:
            wanted = self.window_sent = self.window
        least_chance = self.least_chance if wanted else 0.0
        return Commit(self.sequence_id, position, self.sequence.tokens[position : self.num_sent], wanted, least_chance)
