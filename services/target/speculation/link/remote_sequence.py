"""RemoteSequence: a live sequence as the link has it, two state machines over what was said of it.

`Phase` is what the draft has of the sequence, and decides what it is told next. The message is the one that is sent on
leaving the state, or in it:

    phase     | told of it (message)      | it predicts | a pause ends            | it releases | the link ends
    ----------+---------------------------+-------------+-------------------------+-------------+--------------
    UNOPENED  | READING (Open) *          | refused     | UNOPENED                | RELEASED    | UNOPENED
    READING   | READING (Commit, Window)  | FOLLOWED    | READING                 | RELEASED    | UNOPENED
    FOLLOWED  | FOLLOWED (Commit, Window) | FOLLOWED    | READING where it lags   | RELEASED    | UNOPENED
    RELEASED  | RELEASED (nothing)        | refused     | RELEASED                | refused     | UNOPENED

    * FOLLOWED where the draft works between passes only and has no more to read than a pass commits.

The end of a sequence is told by a Close in READING and FOLLOWED, and by nothing in the others. After the link's end it
goes on under an id that no link has seen.

`Answer` is what the next predictions tell of the draft's delay since it was asked, by a commit or the end of a pause:

    answer  | a commit leaves predictions | none, credit | none, paused | a pause ends | a step waits | they come
    --------+-----------------------------+--------------+--------------+--------------+--------------+----------
    UNTIMED | UNTIMED                     | AWAITED      | TIMED        | OVERDUE **   | TIMED        | UNTIMED
    TIMED   | UNTIMED                     | AWAITED      | TIMED        | AWAITED      | TIMED        | TIMED
    AWAITED | UNTIMED                     | OVERDUE      | UNTIMED      | AWAITED      | AWAITED      | TIMED
    OVERDUE | UNTIMED                     | OVERDUE      | UNTIMED      | OVERDUE **   | AWAITED      | UNTIMED
    REWOUND | UNTIMED                     | AWAITED      | TIMED        | REWOUND      | REWOUND      | REWOUND

    ** AWAITED with a draft that runs ahead, whose pause says that it has nothing under way.

In all of them, tokens that are taken back lead to REWOUND where the draft has them, else to UNTIMED, as do a release
and the link's end. Nothing is said in REWOUND: the draft hears of it with what comes in the place of the old tokens.
What is forbidden there, which is what it would predict again, it does not know.
"""

import time
from dataclasses import dataclass
from enum import Enum, auto

from services.draft_protocol.messages import Commit, Open, TargetMessage, Window
from services.draft_protocol.protocol import MAX_COMMIT
from services.engine.events import VocabularyMatch
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.prediction_chain import PredictionChain
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS


class Phase(Enum):
    """What the draft has of a sequence."""

    UNOPENED = auto()  # it was not told of it on this link
    READING = auto()  # it has not caught up with it
    FOLLOWED = auto()
    RELEASED = auto()  # it has dropped it


class Answer(Enum):
    """What the next predictions are."""

    UNTIMED = auto()  # nobody lacks them, and they may have been under way before
    TIMED = auto()  # nobody lacks them; they tell how long the draft takes
    AWAITED = auto()  # there are none though some were asked for; they tell how long the draft takes
    OVERDUE = auto()  # asked for anew before any came: they may be the answer to the question before
    REWOUND = auto()  # of no use: they go on from what was taken back

    @property
    def is_timed(self) -> bool:
        """Whether they tell how long the draft takes, as far as one can know."""
        return self in {Answer.TIMED, Answer.AWAITED}

    @property
    def is_awaited(self) -> bool:
        """Whether there are none since some were asked for."""
        return self in {Answer.AWAITED, Answer.OVERDUE}


@dataclass(frozen=True, slots=True)
class LinkTerms:
    """How one link's draft works."""

    run_ahead: int = 0  # credit beyond what the next pass can verify; with none it works between passes only
    num_alternates: int = 0  # at so many of its next predictions
    vocabulary: VocabularyMatch | None = None  # how its tokens relate to the target's


class RemoteSequence:
    """Times are in seconds of the monotonic clock. Not safe to share between threads."""

    def __init__(self, sequence: Sequence, sequence_id: int, terms: LinkTerms, *, window: int) -> None:
        self.sequence = sequence
        self.sequence_id = sequence_id
        self.terms = terms
        self.phase = Phase.UNOPENED
        self.answer = Answer.UNTIMED
        self.asked_at = 0.0
        self.window = window
        self.window_sent = 0
        self.least_chance = 0.0  # of all that is wanted to be right, below which no more is
        self.num_committed = 0
        self.num_sent = 0  # leading tokens that the draft has, and that are still committed
        self.chain = self._new_chain()

    @property
    def is_open(self) -> bool:
        """Whether the draft is at work on it."""
        return self.phase in {Phase.READING, Phase.FOLLOWED}

    @property
    def is_reading(self) -> bool:
        """Whether the draft has more to do before its next prediction than to predict."""
        return self.phase is Phase.READING or (self.phase is Phase.UNOPENED and self._is_long)

    @property
    def num_unsent(self) -> int:
        """Committed tokens that the draft does not know of."""
        return self.num_committed - self.num_sent

    @property
    def is_behind(self) -> bool:
        """Whether the draft has more to read than a pass commits."""
        return self.num_unsent > MOST_PREDICTIONS + 1

    def commit(self) -> bool:
        """The sequence's tokens may have grown or been taken back; True if the draft is to hear of it now."""
        num_before, self.num_committed = self.num_committed, len(self.sequence.tokens)
        if self.num_committed > num_before:
            self._grow(num_before)
            return self.window > 0  # else it hears of it when its work is wanted again
        if self.num_committed < num_before:
            self._rewind()
        return False

    def end_pause(self) -> bool:
        """It gets credit again; True if that asks it for predictions."""
        if self.phase is Phase.RELEASED or self.answer is Answer.REWOUND:
            return False
        self.asked_at = time.monotonic()
        is_timed = self.answer.is_timed or self.terms.run_ahead > 0
        self.answer = Answer.AWAITED if is_timed else Answer.OVERDUE
        if self.phase is Phase.FOLLOWED and self.is_behind:
            self.phase = Phase.READING
        return True

    def wait(self) -> None:
        """A step waits for predictions: what comes is taken for the answer to what was asked last."""
        self.answer = {Answer.UNTIMED: Answer.TIMED, Answer.OVERDUE: Answer.AWAITED}.get(self.answer, self.answer)

    def arrive(self) -> None:
        """Predictions of use have come."""
        self.phase = Phase.FOLLOWED
        self.answer = {Answer.AWAITED: Answer.TIMED, Answer.OVERDUE: Answer.UNTIMED}.get(self.answer, self.answer)

    def release(self, reason: str) -> None:
        """The draft has dropped it."""
        self._lose(Phase.RELEASED)
        self.sequence.speculation.dropped = f"the draft dropped the sequence: {reason}"

    def disconnect(self, next_id: int) -> None:
        """The link has ended: the sequence is followed anew, under an id that no link has seen."""
        self._lose(Phase.UNOPENED)
        self.sequence_id = next_id
        self.num_sent = self.window_sent = 0
        self.sequence.speculation.dropped = ""

    def connect(self, terms: LinkTerms) -> None:
        """There is a new link; a draft that works between passes only begins without credit."""
        self.terms, self.answer = terms, Answer.UNTIMED
        self.chain = self._new_chain()
        self._end_credit()

    def next_message(self) -> TargetMessage | None:
        """What brings the draft up to date next, which counts as told; None where it is."""
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
        """A draft that runs ahead has begun long before the target has read the prompt: it is left to it."""
        return self.terms.run_ahead > 0 or self.is_behind

    def _grow(self, num_before: int) -> None:
        if self.chain.commit(self.sequence.tokens[num_before:], num_committed=num_before):
            self.sequence.speculation.alternates += 1
        self._end_credit()
        self.asked_at = time.monotonic()
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
        self.sequence.speculation.losses += self.is_open
        self.phase, self.answer = phase, Answer.UNTIMED
        self.chain = self._new_chain()

    def _new_chain(self) -> PredictionChain:
        asked = self.sequence.request.speculation.num_predictions
        return PredictionChain(longest=(MOST_PREDICTIONS if asked is None else asked) + self.terms.run_ahead)

    def _end_credit(self) -> None:
        """A commit, or a new link, ends the credit of a draft that works between passes only, once it hears of it."""
        if not self.terms.run_ahead:
            self.window = 0

    def _open(self) -> Open:
        self.phase = Phase.READING if self._is_long else Phase.FOLLOWED
        stats = self.sequence.speculation
        stats.vocabulary = self.terms.vocabulary
        stats.returns += stats.losses > stats.returns
        return Open.of(self.sequence_id, self.sequence.request)

    def _commit(self) -> Commit:
        """The next piece of what is committed; with the last one, the credit of a draft that works between passes."""
        position = self.num_sent
        self.num_sent = min(position + MAX_COMMIT, self.num_committed)
        wanted = 0
        if not self.terms.run_ahead and not self.num_unsent:
            wanted = self.window_sent = self.window
        least_chance = self.least_chance if wanted else 0.0
        return Commit(self.sequence_id, position, self.sequence.tokens[position : self.num_sent], wanted, least_chance)
