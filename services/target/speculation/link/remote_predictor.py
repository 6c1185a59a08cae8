"""RemotePredictor: connects the engine thread with the link to a draft service."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq

from services.draft_protocol.messages import (
    AlternatePrediction,
    DraftLoad,
    DraftMessage,
    Prediction,
    Release,
    TargetMessage,
)
from services.engine.config import MOST_PREDICTIONS
from services.engine.events import FollowCounts, PredictionSource, VocabularyMatch
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.draft_prefill_rate import DraftPrefillRate
from services.target.speculation.link.joint_answers import JointAnswers
from services.target.speculation.link.link_counts import LinkCounts
from services.target.speculation.link.outbox import Outbox
from services.target.speculation.link.remote_sequence import LinkTerms, Phase, RemoteSequence
from services.target.speculation.link.wait_limit import WaitLimit
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes
from services.target.speculation.predictors.predictor import PredictionRequest

logger = logging.getLogger(__name__)


class RemotePredictor:
    """A DraftPredictor for the engine thread; for the link, the source of messages and the sink of those received.

    The link is up from `connected` to `disconnected`; otherwise `absence` is the reason. Each sequence's state on the
    link is a RemoteSequence.
    """

    source = PredictionSource.DRAFT

    def __init__(self, config: PolicyConfig, *, on_outgoing: Callable[[], None]) -> None:
        """`on_outgoing` is called on any thread."""
        self._config, self.num_predictions = config, config.default_length
        self._terms = LinkTerms()  # of the current or last link
        self._wait_limit, self._prefill_rate = WaitLimit(config), DraftPrefillRate(config)
        self._on_outgoing = on_outgoing
        self._changed = threading.Condition()
        self._remotes: dict[Sequence, RemoteSequence] = {}
        self._asked: set[RemoteSequence] = set()  # the sequences with credit
        self._joint = JointAnswers()
        self._by_id: dict[int, RemoteSequence] = {}
        self._outbox = Outbox()
        self._next_id = 1
        self.absence = "the draft has not been reached yet"  # empty while it is linked
        self.load, self.max_sequences = DraftLoad(), 1  # as the draft has reported
        self.num_arrivals = 0
        self.num_followed = 0  # sequences since it was linked
        self.counts = LinkCounts()

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Follow a new sequence, or the changes of a pass; called by the engine thread."""
        with self._changed:
            remote = self._remotes.get(sequence) or self._follow(sequence)
            if remote.commit():
                self._mark(remote)
            self._note_credit(remote)
            counts = remote.take_counts()
        self.send()
        return counts

    def serves(self, sequence: Sequence) -> bool:  # noqa: ARG002 - there is no other draft
        """True: all sequences that it is given are its own."""
        return True

    def why_none(self, sequence: Sequence) -> str:
        """The reason for no prediction for a sequence: the draft is away, or has dropped it."""
        return self.absence or self._remotes[sequence].dropped

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        """The expected times of predictions, if the draft has nothing else to do first."""
        with self._changed:
            now, latency = time.monotonic(), self._wait_limit.latency
            return PredictionTimes(
                [self._times_of(self._remotes[sequence], now) for sequence in sequences],
                delay=self._wait_limit.delay,
                each=latency.each,
                growth=latency.growth,
                is_trusted=latency.is_known and not self._wait_limit.is_silent,
                runs_ahead=self._runs_ahead,
            )

    def _times_of(self, remote: RemoteSequence, now: float) -> SequenceTimes:
        if remote.chain.ends:  # no others come
            return SequenceTimes(num_ready=MOST_PREDICTIONS)
        is_silent = self._wait_limit.is_silent
        elapsed = now - remote.asked_at if remote.window and not (remote.is_rewound or is_silent) else 0.0
        if self._terms.run_ahead:  # it began to read long before the target's prefill ended
            may_be_there = remote.is_reading and not is_silent
            return SequenceTimes(MOST_PREDICTIONS if may_be_there else len(remote.chain.tokens), elapsed)
        rate = self._prefill_rate
        is_new = not remote.window and remote.is_behind
        reading = rate.seconds(remote.num_unsent) if is_new else rate.remaining(remote.sequence_id, now)
        return SequenceTimes(len(remote.chain.tokens), elapsed, reading)

    @property
    def is_busy(self) -> bool:
        """Whether a draft on the target's cores has not answered yet."""
        with self._changed:
            shares_cores = not self.absence and not self._terms.run_ahead
            return shares_cores and any(remote.answer.is_awaited for remote in self._remotes.values())

    @property
    def _runs_ahead(self) -> bool:
        """Whether the draft predicts on its own cores while the target computes."""
        return not self.absence and self._terms.run_ahead > 0

    @property
    def granted(self) -> int:
        """How many tokens after the committed ones the draft may predict now, for all sequences."""
        with self._changed:
            return sum(remote.window for remote in self._remotes.values())

    def predict(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
        """Grant the draft credit for all requests together, so that it serves them in the same passes; the iterator
        waits for the answers.
        """
        runs_ahead = self._runs_ahead
        for sequence, length, _, least_chance, keeps_earlier in requests:
            if keeps_earlier and runs_ahead:
                self.keep(sequence)
            else:
                self.ask(sequence, length, least_chance)
        self.send()
        return self._answers(requests)

    def _answers(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
        since = time.monotonic()
        for sequence, length, max_wait, *_ in requests:
            yield self.take(sequence, length, until=since + max_wait) if length else ()

    def rest(self, sequence: Sequence) -> None:
        """Pause a draft on the target's cores."""
        if not self._runs_ahead:
            self.ask(sequence, 0)

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        """Grant the draft credit for `limit` predictions."""
        with self._changed:
            remote = self._remotes[sequence]
            remote.least_chance = least_chance
            self._grant(remote, limit + self._terms.run_ahead if limit else 0)
            if limit and self._is_reached(remote) and not remote.is_rewound:
                self._joint.ask(is_reading=remote.is_reading)

    def keep(self, sequence: Sequence) -> None:
        """Leave the credit of a draft as it is, but grant it some if it has none."""
        with self._changed:
            remote = self._remotes[sequence]
            if not remote.window:
                self._grant(remote, self.num_predictions + self._terms.run_ahead)

    def send(self) -> None:
        """Wake the link to send messages; do not call this under the lock, which the link needs."""
        self._joint.send()
        if self._outbox.take_news():
            self._on_outgoing()

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
        """At most `limit` predictions, after a wait until at most `until`; if that is infinite, WaitLimit limits it."""
        with self._changed:
            remote = self._remotes[sequence]
            if limit and remote.window and self._is_reached(remote):
                self._wait(remote, limit, until)
            return remote.chain.tokens[:limit]

    def close(self, sequence: Sequence) -> FollowCounts:
        """Forget a sequence that has ended or was dropped; called by the engine thread."""
        with self._changed:
            remote = self._remotes.pop(sequence)
            self._asked.discard(remote)
            del self._by_id[remote.sequence_id]
            self._outbox.unmark(remote)
            self._prefill_rate.gave_up(remote.sequence_id)
            if remote.is_open:
                self._outbox.close(remote.sequence_id)
        self.send()
        return remote.take_counts()

    @property
    def fullness(self) -> float:
        """The sequences that the draft follows, for all targets, as a share of those that this target may open."""
        return (self.load.other_sequences + len(self._remotes)) / max(1, self.max_sequences)

    def connected(self, vocabulary: VocabularyMatch | None = None, *, run_ahead: int, num_alternates: int = 0) -> None:
        """Open every live sequence on a new link with these LinkTerms; called by the link, as all methods below."""
        with self._changed:
            self.absence = ""
            self._terms = LinkTerms(run_ahead, num_alternates, vocabulary)
            self.num_arrivals += 1
            self.num_followed = len(self._remotes)
            self._wait_limit.reset()
            self._prefill_rate = DraftPrefillRate(self._config)
            for remote in self._remotes.values():
                remote.connect(self._terms)
                self._note_credit(remote)
                self._mark(remote)
        self.send()

    def disconnected(self, reason: str) -> None:
        """Forget all state of a link that has ended, and stop all waits."""
        with self._changed:
            self.counts.losses += not self.absence
            self.absence = reason
            self._outbox.clear()
            for remote in self._remotes.values():
                remote.disconnect(self._new_id())
            self._by_id = {remote.sequence_id: remote for remote in self._remotes.values()}
            self._changed.notify_all()

    def outgoing(self) -> Iterator[TargetMessage]:
        """The messages that bring the draft up to date; each counts as sent once it has been yielded."""
        while (message := self._next_message()) is not None:
            yield message

    def hear_load(self, load: DraftLoad, max_sequences: int | None = None) -> None:
        """Take the draft's load, and how many of this target's sequences it accepts, if given."""
        self.load = load
        self.max_sequences = self.max_sequences if max_sequences is None else max_sequences

    def hear(self, message: DraftMessage) -> bool:
        """Take a message about a sequence; False if it is useless, as for a sequence that the draft does not follow."""
        with self._changed:
            remote = self._by_id.get(message.sequence_id)
            if remote is None or not remote.is_open:
                return False
            match message:
                case Prediction():
                    is_useful = self._hear_prediction(remote, message)
                case AlternatePrediction():
                    is_useful = self._hear_alternate(remote, message)
                case Release():
                    is_useful = self._hear_release(remote, message.reason)
            if is_useful:
                self._changed.notify_all()
            return is_useful

    def _hear_prediction(self, remote: RemoteSequence, run: Prediction) -> bool:
        tokens = remote.sequence.tokens  # the engine thread may be appending to them
        if not remote.chain.receive(run, tokens=tokens, num_committed=remote.num_committed):
            return False
        now, num_predictions = time.monotonic(), len(remote.chain.tokens)
        self._wait_limit.heard()
        if remote.answer.is_timed and (count := self._measured(remote, num_predictions)):
            self._wait_limit.arrived(count, now - remote.asked_at, num_sequences=self._num_asked)
            self.counts.add_round_trip(now - remote.asked_at)
        drawing = self._wait_limit.expected(num_predictions, num_sequences=self._num_asked)
        self._prefill_rate.answered(remote.sequence_id, now - drawing)
        remote.arrive()
        return True

    def _measured(self, remote: RemoteSequence, num_predictions: int) -> int:
        """The number of predictions whose time an answer measures; 0 if it measures none."""
        if self._terms.run_ahead:
            return num_predictions if remote.phase is Phase.FOLLOWED else 0
        is_whole = remote.chain.ends or num_predictions >= remote.window
        return self._joint.arrive(num_predictions) if is_whole else 0

    def _hear_alternate(self, remote: RemoteSequence, alternate: AlternatePrediction) -> bool:
        tokens = remote.sequence.tokens  # the engine thread may be appending to them
        is_useful = remote.chain.receive_alternate(alternate, tokens=tokens, num_committed=remote.num_committed)
        if is_useful and remote.chain.tokens:
            remote.arrive()
        return is_useful

    def _hear_release(self, remote: RemoteSequence, reason: str) -> bool:
        """Continue a sequence without the draft, until there is another link."""
        remote.release(reason)
        self._outbox.unmark(remote)
        self._prefill_rate.gave_up(remote.sequence_id)
        logger.info("request %s: the draft dropped it: %s", remote.sequence.request.request_id, reason)
        return True

    @property
    def _num_asked(self) -> int:
        """The number of sequences with credit; at least 1, since an answer may be to an earlier request."""
        return max(1, len(self._asked))

    def _is_reached(self, remote: RemoteSequence) -> bool:
        return not self.absence and remote.phase is not Phase.RELEASED

    def _wait(self, remote: RemoteSequence, limit: int, until: float) -> None:
        def is_over() -> bool:
            return len(remote.chain.tokens) >= limit or remote.chain.ends or not self._is_reached(remote)

        count = None if remote.is_reading else limit
        if until == math.inf:
            until = remote.asked_at + self._wait_limit.seconds(remote.asked_at, count, num_sequences=self._num_asked)
        if (left := until - time.monotonic()) <= 0 or remote.is_rewound:
            return
        remote.wait()
        if not self._changed.wait_for(is_over, left) and not remote.chain.tokens:
            self._wait_limit.missed(remote.asked_at, time.monotonic())
            self._prefill_rate.missed(time.monotonic())

    def _follow(self, sequence: Sequence) -> RemoteSequence:
        window = 0  # a draft that works between passes begins after the target's prefill
        if self._terms.run_ahead:
            asked = sequence.request.speculation.num_predictions
            window = (self.num_predictions if asked is None else asked) + self._terms.run_ahead
        remote = RemoteSequence(sequence, self._new_id(), self._terms, window=window)
        self._remotes[sequence] = self._by_id[remote.sequence_id] = remote
        self.num_followed += 1
        return remote

    def _new_id(self) -> int:
        sequence_id, self._next_id = self._next_id, self._next_id + 1
        return sequence_id

    def _grant(self, remote: RemoteSequence, window: int) -> None:
        if remote.window == window and (window or not remote.window_sent):
            return
        if not window:
            self._prefill_rate.gave_up(remote.sequence_id)
        elif not remote.window and not remote.chain.tokens and remote.end_pause() and remote.is_behind:
            self._prefill_rate.asked(remote.sequence_id, remote.num_unsent, remote.asked_at)
        remote.window = window
        self._note_credit(remote)
        self._mark(remote)

    def _note_credit(self, remote: RemoteSequence) -> None:
        if remote.window:
            self._asked.add(remote)
        else:
            self._asked.discard(remote)

    def _mark(self, remote: RemoteSequence) -> None:
        if self._is_reached(remote):
            self._outbox.mark(remote)

    def _next_message(self) -> TargetMessage | None:
        with self._changed:
            return self._outbox.next_message()
