"""RemotePredictor: the predictions of a draft service, between the engine thread and the link."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator

from services.engine.events import PredictionSource, VocabularyMatch
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.draft_messages import Close, Outgoing
from services.target.speculation.link.draft_prefill_rate import ReadingPace
from services.target.speculation.link.followed_sequence import FollowedSequence
from services.target.speculation.link.prediction_chain import PredictionChain
from services.target.speculation.link.wait_limit import Patience
from services.target.speculation.policy.policy_config import DraftConfig
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS

logger = logging.getLogger(__name__)


class RemotePredictor:
    """A Predictor to the engine thread; to the link, what is to be sent and where to put what arrives.

    All that waits to be sent is one mark per sequence: messages are made when they are sent, so commits merge and
    nothing piles up behind a slow link.
    """

    source = PredictionSource.DRAFT

    def __init__(self, config: DraftConfig, *, on_outgoing: Callable[[], None]) -> None:
        """`on_outgoing` is called on any thread."""
        self._config, self.num_predictions = config, config.default_length
        self._run_ahead = self._num_alternates = 0
        self._patience, self._reading = Patience(config), ReadingPace(config)
        self._on_outgoing = on_outgoing
        self._changed = threading.Condition()
        self._followed: dict[Sequence, FollowedSequence] = {}
        self._by_id: dict[int, FollowedSequence] = {}
        self._news: dict[int, FollowedSequence] = {}
        self._closed: list[int] = []
        self._next_id = 1
        self._has_news = False  # that the link was not woken for
        self._connected = False
        self._vocabulary: VocabularyMatch | None = None
        self.absence = "the draft has not been reached yet"  # empty while it is there
        self.num_arrivals = 0

    def commit(self, sequence: Sequence) -> None:
        """The sequence is new, or a pass over it has ended; called by the engine thread."""
        with self._changed:
            followed = self._followed.get(sequence)
            if followed is None:
                followed = self._follow(sequence)
            elif followed.num_committed > len(sequence.tokens):
                followed.rewind()
                return
            elif followed.num_committed == len(sequence.tokens):
                return  # a part of the prompt was computed, which the draft knows
            followed.is_rewound = False
            num_before, followed.num_committed = followed.num_committed, len(sequence.tokens)
            if followed.chain.commit(sequence.tokens[num_before:], num_committed=num_before):
                sequence.speculation.alternates += 1
            if not self._run_ahead:
                followed.end_credit()
            followed.asked_at = time.monotonic()
            followed.tells_delay = not followed.is_empty and not followed.chain.tokens
            followed.is_empty = bool(followed.window) and not followed.chain.tokens
            if followed.window:  # else it hears of it when its work is wanted again
                self._mark(followed)
        self._wake()

    def why_none(self, sequence: Sequence) -> str:
        """Why there is no prediction for a sequence: the draft is away, or has dropped it."""
        return self.absence or sequence.speculation.dropped

    def wait_for(self, sequence: Sequence, count: int) -> float:
        """How long so many predictions are still expected to take, beside what the draft has to catch up with first."""
        with self._changed:
            followed = self._followed[sequence]
            if (missing := count - len(followed.chain.tokens)) <= 0:
                return 0.0
            if followed.is_fresh:  # one that runs ahead has begun long before the target has read the prompt
                return 0.0 if self._run_ahead else self._patience.expected(count)
            elapsed = time.monotonic() - followed.asked_at if followed.window else 0.0
            return max(0.0, self._patience.expected(missing) - elapsed)

    def catch_up(self, sequence: Sequence) -> float | None:
        """How long the draft needs to read what it does not know, on the target's cores; None if nobody knows."""
        with self._changed:
            followed = self._followed[sequence]
            if self._run_ahead or followed.window or not followed.is_behind:
                return 0.0
            return self._reading.seconds(followed.num_unsent)

    @property
    def is_busy(self) -> bool:
        """Whether the draft, on the target's cores, has not answered yet."""
        with self._changed:
            return not self._run_ahead and any(followed.is_empty for followed in self._followed.values())

    def ask(self, sequence: Sequence, limit: int) -> None:
        """Grant the draft credit for so many predictions."""
        with self._changed:
            self._grant(self._followed[sequence], limit + self._run_ahead if limit else 0)
        self._wake()

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
        """At most `limit` predictions, after a wait until they are there, patience ends or that moment comes."""
        with self._changed:
            followed = self._followed[sequence]
            if limit and self._is_followed(followed):
                self._wait(followed, limit, until)
            return followed.chain.tokens[:limit]

    def close(self, sequence: Sequence) -> None:
        """The sequence has ended or was dropped; called by the engine thread."""
        with self._changed:
            followed = self._followed.pop(sequence)
            del self._by_id[followed.sequence_id]
            self._news.pop(followed.sequence_id, None)
            self._reading.gave_up(followed.sequence_id)
            if followed.is_open:
                self._closed.append(followed.sequence_id)
                self._has_news = True
        self._wake()

    def connected(self, vocabulary: VocabularyMatch | None = None, *, run_ahead: int, num_alternates: int = 0) -> None:
        """The draft is there: every live sequence is opened; called by the link, as all below.

        `run_ahead` is its credit beyond what the next pass can verify. With none it works between passes only, and
        should have no alternates to prepare then.
        """
        with self._changed:
            self._connected, self.absence = True, ""
            self._run_ahead, self._num_alternates = run_ahead, num_alternates
            self._vocabulary = vocabulary
            self.num_arrivals += 1
            self._patience.reset()
            self._reading = ReadingPace(self._config)
            for followed in self._followed.values():
                followed.chain = self._new_chain(followed.sequence)
                if not run_ahead:
                    followed.end_credit()
                self._mark(followed)
        self._wake()

    def disconnected(self, reason: str) -> None:
        """The draft is gone: what it knew and said is forgotten, and nobody waits any longer."""
        with self._changed:
            self._connected, self.absence = False, reason
            self._news.clear()
            self._closed.clear()
            for followed in self._followed.values():
                self._reset(followed)
            self._changed.notify_all()

    def outgoing(self) -> Iterator[Outgoing]:
        """The messages that bring the draft up to date; each counts as sent once it is taken."""
        while (message := self._take()) is not None:
            yield message

    def predicted(self, sequence_id: int, *, epoch: int, position: int, token_ids: list[int]) -> bool:
        """A run of predictions has arrived; False if it is of no use, as all are of a sequence that has ended."""
        with self._changed:
            if (followed := self._by_id.get(sequence_id)) is None:
                return False
            is_useful = followed.chain.receive(
                epoch=epoch,
                position=position,
                token_ids=token_ids,
                tokens=followed.sequence.tokens,  # which the engine thread may be adding to
                num_committed=followed.num_committed,
            )
            if is_useful:
                now = time.monotonic()
                if followed.tells_delay and not followed.is_fresh:
                    self._patience.arrived(len(followed.chain.tokens), now - followed.asked_at)
                drawing = self._patience.expected(len(followed.chain.tokens))
                self._reading.answered(sequence_id, now - drawing)
                followed.is_empty = followed.is_fresh = False
                self._changed.notify_all()
            return is_useful

    def alternate_predicted(
        self, sequence_id: int, *, epoch: int, position: int, token_id: int, token_ids: list[int]
    ) -> bool:
        """What follows if a prediction is wrong has arrived; False if it is of no use."""
        with self._changed:
            if (followed := self._by_id.get(sequence_id)) is None:
                return False
            is_useful = followed.chain.receive_alternate(
                epoch=epoch,
                position=position,
                token_id=token_id,
                token_ids=token_ids,
                tokens=followed.sequence.tokens,  # which the engine thread may be adding to
                num_committed=followed.num_committed,
            )
            if followed.chain.tokens:
                followed.is_empty = False
                self._changed.notify_all()
            return is_useful

    def released(self, sequence_id: int, reason: str) -> bool:
        """The draft has dropped a sequence, which goes on alone until another link; False if that is no news."""
        with self._changed:
            followed = self._by_id.get(sequence_id)
            if followed is None or followed.is_released:
                return False
            followed.sequence.speculation.losses += followed.is_open
            followed.is_open, followed.is_released = False, True
            self._news.pop(sequence_id, None)
            self._reading.gave_up(sequence_id)
            followed.chain = self._new_chain(followed.sequence)
            followed.sequence.speculation.dropped = f"the draft dropped the sequence: {reason}"
            self._changed.notify_all()
        logger.info("request %s: the draft dropped it: %s", followed.sequence.request.request_id, reason)
        return True

    def _is_followed(self, followed: FollowedSequence) -> bool:
        return self._connected and not followed.is_released

    def _wait(self, followed: FollowedSequence, limit: int, until: float) -> None:
        def is_over() -> bool:
            return len(followed.chain.tokens) >= limit or not self._is_followed(followed)

        patience = self._patience.seconds(followed.asked_at, None if followed.is_fresh else limit)
        is_reading = followed.is_fresh and patience > 0 and until < math.inf  # and the caller knows how long it may
        end = followed.asked_at + patience + self._patience.margin(self._reading.expected if is_reading else 0.0)
        left = min(end, until) - time.monotonic()
        if left <= 0:
            return
        followed.tells_delay = True
        if not self._changed.wait_for(is_over, left) and not followed.chain.tokens and end <= until:
            self._patience.missed(followed.asked_at, time.monotonic())

    def _follow(self, sequence: Sequence) -> FollowedSequence:
        followed = FollowedSequence(sequence, self._next_id, self._new_chain(sequence))
        if self._run_ahead:  # else it begins when the target has read the prompt
            asked = sequence.request.speculation.num_predictions
            followed.window = (self.num_predictions if asked is None else asked) + self._run_ahead
        self._next_id += 1
        self._followed[sequence] = self._by_id[followed.sequence_id] = followed
        return followed

    def _reset(self, followed: FollowedSequence) -> None:
        """Follow the sequence anew, under an id that no link has seen."""
        followed.sequence.speculation.losses += followed.is_open
        del self._by_id[followed.sequence_id]
        followed.sequence_id, self._next_id = self._next_id, self._next_id + 1
        self._by_id[followed.sequence_id] = followed
        followed.num_sent = followed.window_sent = 0
        followed.is_open = followed.is_released = False
        followed.is_fresh = True
        followed.sequence.speculation.dropped = ""
        followed.chain = self._new_chain(followed.sequence)

    def _new_chain(self, sequence: Sequence) -> PredictionChain:
        asked = sequence.request.speculation.num_predictions
        return PredictionChain(longest=(MOST_PREDICTIONS if asked is None else asked) + self._run_ahead)

    def _grant(self, followed: FollowedSequence, window: int) -> None:
        if followed.window != window or (not window and followed.window_sent):
            if not window:
                self._reading.gave_up(followed.sequence_id)
            elif not followed.window and not followed.chain.tokens:
                followed.asked_at, followed.is_empty = time.monotonic(), True
                followed.tells_delay = followed.tells_delay or self._run_ahead > 0
                followed.is_fresh = followed.is_behind or (followed.is_fresh and followed.num_sent > 0)
                if followed.is_behind:
                    self._reading.asked(followed.sequence_id, followed.num_unsent, followed.asked_at)
            followed.window = window
            self._mark(followed)

    def _mark(self, followed: FollowedSequence) -> None:
        if self._is_followed(followed):
            self._news[followed.sequence_id] = followed
            self._has_news = True

    def _wake(self) -> None:
        """Let the link send what there is; not to be called under the lock, which it needs for that."""
        if self._has_news:
            self._has_news = False
            self._on_outgoing()

    def _take(self) -> Outgoing | None:
        with self._changed:
            if self._closed:
                return Close(self._closed.pop())
            while self._news:
                sequence_id = next(iter(self._news))
                followed = self._news.pop(sequence_id)
                runs_ahead, num_alternates = self._run_ahead > 0, self._num_alternates
                message = followed.next_message(self._vocabulary, runs_ahead=runs_ahead, num_alternates=num_alternates)
                if message is not None:
                    self._news[sequence_id] = followed  # at the end: the sequences take turns
                    return message
            return None
