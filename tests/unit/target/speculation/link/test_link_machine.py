"""The draft link under any events, in any order, beside a small model of the protocol.

Messages are sent piece by piece and come late. Checked of the target: it sends nothing that the protocol forbids; once
all is sent, the draft has all commits; no run is used as a prediction that was not made for the present text; once all
has arrived, the target has all that the draft has predicted.
"""

import time
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.draft_protocol.messages import AlternatePrediction, Close, Commit, DraftMessage, Open, Prediction, Release
from services.engine.config import MOST_PREDICTIONS
from services.target.speculation.link import remote_sequence
from services.target.speculation.link.remote_predictor import RemotePredictor
from services.target.speculation.link.wait_limit import WaitLimit
from services.target.speculation.policy.policy_config import PolicyConfig
from tests.unit.expected_sequence import ExpectedSequence
from tests.unit.honest_draft import DraftSide, HonestDraft
from tests.unit.sequences import make_request

RUN_AHEAD = 3
MAX_COMMIT = 8  # so that prompts go in pieces
TOKENS = st.integers(0, 2)  # so few that chance often predicts them
RUNS = st.lists(TOKENS, min_size=1, max_size=4)
SOME = st.lists(TOKENS, max_size=2)
PROMPTS = st.one_of(st.lists(TOKENS, min_size=1, max_size=4), st.lists(TOKENS, min_size=20, max_size=24))
IDS, EPOCHS, POSITIONS = st.integers(0, 8), st.integers(0, 5), st.integers(0, 30)
GARBAGE = st.one_of(
    st.builds(Prediction, IDS, EPOCHS, POSITIONS, RUNS.map(tuple)),
    st.builds(AlternatePrediction, IDS, EPOCHS, POSITIONS, TOKENS, RUNS.map(tuple)),
)


class LinkMachine(RuleBasedStateMachine):
    @initialize()
    def begin_all(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(remote_sequence, "MAX_COMMIT", MAX_COMMIT)
        self.patch.setattr(time, "monotonic", lambda: self.now)
        self.now = 1000.0
        self.is_woken = False
        self.num_observed = 0
        self.patch.setattr(WaitLimit, "arrived", lambda *_, **__: setattr(self, "num_observed", self.num_observed + 1))
        self.predictor = RemotePredictor(
            PolicyConfig(longest_wait=0.0), on_outgoing=lambda: setattr(self, "is_woken", True)
        )
        self.sequences: list[ExpectedSequence] = []
        self.num_opened = 0
        self.closed_ids: set[int] = set()
        self.draft: HonestDraft | None = None
        self.run_ahead = 0  # of this link or the last one
        self.past_ids: set[int] = set()
        self.wire: deque[DraftMessage] = deque()

    def teardown(self) -> None:
        self.patch.undo()

    @precondition(lambda self: self.draft is None)
    @rule(run_ahead=st.sampled_from([0, RUN_AHEAD]))
    def connect(self, run_ahead: int) -> None:
        self.run_ahead = run_ahead
        self.draft = HonestDraft(run_ahead=run_ahead, past_ids=self.past_ids)
        self.predictor.connected(run_ahead=run_ahead, num_alternates=2 if run_ahead else 0)
        for each in self.sequences:
            each.forget_question()
            each.window = each.window or 0 if run_ahead else 0

    @precondition(lambda self: len(self.sequences) < 3)
    @rule(prompt=PROMPTS)
    def open(self, prompt: list[int]) -> None:
        self.num_opened += 1
        each = ExpectedSequence(make_request(prompt, min_tokens=self.num_opened), [*prompt])
        self.sequences.append(each)
        self.predictor.commit(each)
        if self.run_ahead:
            each.window = self.predictor.num_predictions + RUN_AHEAD

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), num_right=st.integers(0, 4), others=SOME)
    def commit(self, data: st.DataObject, num_right: int, others: list[int]) -> None:
        each = self._any(data)
        self._commit(each, [*self.predictor.take(each, num_right), *others])

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), num_tokens=st.integers(1, 5))
    def rewind(self, data: st.DataObject, num_tokens: int) -> None:
        each = self._any(data)
        kept = max(len(each.request.prompt), len(each.tokens) - num_tokens)
        if kept < len(each.tokens):
            del each.tokens[kept:]
            each.speculation.follow(self.predictor.commit(each))
            assert self.predictor.take(each, 100) == []
            each.rewind()

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), limit=st.sampled_from([0, 0, 1, 3, 5]))
    def ask(self, data: st.DataObject, limit: int) -> None:
        self._ask(self._any(data), limit)

    # The draft

    @precondition(lambda self: self.draft and self.draft.following)
    @rule(data=st.data(), token_ids=RUNS)
    def predict(self, data: st.DataObject, token_ids: list[int]) -> None:
        sequence_id = data.draw(st.sampled_from(self.draft.following))
        self.wire += self.draft.predict(sequence_id, token_ids)

    @precondition(lambda self: self.draft and self.draft.run_ahead and self.draft.following)
    @rule(data=st.data(), token_id=TOKENS, token_ids=RUNS)
    def predict_alternate(self, data: st.DataObject, token_id: int, token_ids: list[int]) -> None:
        sequence_id = data.draw(st.sampled_from(self.draft.following))
        self.wire += self.draft.predict_alternate(sequence_id, data.draw(st.integers(0, 3)), token_id, token_ids)

    @precondition(lambda self: self.draft)
    @rule(message=GARBAGE)
    def say_garbage(self, message: DraftMessage) -> None:
        if each := self._live(message.sequence_id):
            each.is_strict = False
        self._deliver(message)

    # What ends, in one rule, or little would live long

    @precondition(lambda self: self.sequences and self.draft)
    @rule(data=st.data(), what=st.sampled_from(["sequence", "release", "garbage", "link", "released sequence"]))
    def end(self, data: st.DataObject, what: str) -> None:
        match what:
            case "sequence":
                self._close(self._any(data))
            case "released sequence":
                each = self._any(data)
                self._deliver(Release(each.sequence_id, "reason 99"))
                self._close(each)
            case "release" if self.draft.following:
                self.wire.append(self.draft.release(data.draw(st.sampled_from(self.draft.following))))
            case "garbage":
                self._deliver(Release(data.draw(IDS), "reason 99"))
            case "link":
                self._disconnect()

    # What is between them

    @precondition(lambda self: self.draft)
    @rule(most=st.integers(1, 4))
    def send(self, most: int) -> None:
        for _, message in zip(range(most), self.predictor.outgoing(), strict=False):
            self._send(message)

    @precondition(lambda self: self.wire)
    @rule(most=st.integers(1, 3))
    def deliver(self, most: int) -> None:
        for _ in range(min(most, len(self.wire))):
            self._deliver(self.wire.popleft())

    @precondition(lambda self: self.draft)
    @rule()
    def settle(self) -> None:
        """All messages are sent and have arrived."""
        for message in self.predictor.outgoing():
            assert self.is_woken, "the link sleeps while there is something to say"
            self._send(message)
        assert not self.closed_ids
        self.is_woken = False
        while self.wire:
            self._deliver(self.wire.popleft())
        for each in self.sequences:
            self._check_settled(each)

    @precondition(lambda self: self.draft and self.sequences)
    @rule(data=st.data(), limit=st.integers(1, 5), token_ids=RUNS, others=SOME, num_right=st.integers(0, 4))
    def make_a_pass(
        self, data: st.DataObject, limit: int, token_ids: list[int], others: list[int], num_right: int
    ) -> None:
        each, is_late, then_pauses = self._any(data), data.draw(st.booleans()), data.draw(st.booleans())
        self._ask(each, limit)
        self.settle()
        if each.sequence_id in self.draft.following:
            self.wire += self.draft.predict(each.sequence_id, token_ids)
            self.wire += self.draft.predict_alternate(each.sequence_id, num_right, token_ids[-1], token_ids)
        if not is_late:
            self.settle()
        self._commit(each, [*self.predictor.take(each, num_right), *others])
        if then_pauses:
            self._ask(each, 0)

    @invariant()
    def is_sound(self) -> None:
        self.now += 1
        assert self.draft or [*self.predictor.outgoing()] == [], "it speaks though there is no link"
        for each in self.sequences:
            each.speculation.follow(self.predictor.commit(each))
            assert each.speculation.losses == each.num_losses
            self._check_predictions(each, self.predictor.take(each, 100))
        awaited = [each.is_awaited for each in self.sequences]
        if None not in awaited:
            assert self.predictor.is_busy == bool(self.draft and not self.draft.run_ahead and any(awaited))

    def _any(self, data: st.DataObject) -> ExpectedSequence:
        return data.draw(st.sampled_from(self.sequences))

    def _commit(self, each: ExpectedSequence, grown: list[int]) -> None:
        each.tokens += grown
        each.speculation.follow(self.predictor.commit(each))
        if grown:
            is_predicted = bool(self.predictor.take(each, 1))
            each.grow(self._told(each), run_ahead=self.run_ahead, is_predicted=is_predicted)

    def _ask(self, each: ExpectedSequence, limit: int) -> None:
        is_question = limit and not each.window and not each.is_released and not self.predictor.take(each, 1)
        self.predictor.ask(each, limit)
        self.predictor.send()
        each.window = limit + self.run_ahead if limit else 0
        if is_question and self.draft:
            each.ask(self._told(each), run_ahead=self.run_ahead)

    def _close(self, each: ExpectedSequence) -> None:
        self.predictor.close(each)
        self.sequences.remove(each)
        if each.sequence_id and not each.is_released:
            self.closed_ids.add(each.sequence_id)

    def _disconnect(self) -> None:
        """Messages of the old link may still come, and are useless."""
        self.predictor.disconnected("it is gone")
        self.draft = None
        self.closed_ids.clear()
        for each in self.sequences:
            each.lose_link()

    def _live(self, sequence_id: int) -> ExpectedSequence | None:
        return next((each for each in self.sequences if sequence_id and each.sequence_id == sequence_id), None)

    def _side(self, each: ExpectedSequence) -> DraftSide | None:
        return self.draft.sides.get(each.sequence_id) if self.draft else None

    def _told(self, each: ExpectedSequence) -> list[int]:
        return side.tokens if (side := self._side(each)) else []

    def _send(self, message) -> None:
        if isinstance(message, Close):
            self.closed_ids.remove(message.sequence_id)
            self.draft.hear(message)
            return
        if isinstance(message, Open):
            (each,) = [each for each in self.sequences if each.request.stops.min_tokens == message.min_tokens]
            assert each.sequence_id == 0, "it is open already"
            each.sequence_id = message.sequence_id
        each = self._live(message.sequence_id)
        assert not each.is_released
        if each.is_rewound and len(self._told(each)) > len(each.tokens):
            assert getattr(message, "token_ids", ()), "it is to hear of what comes in their place first"
        self.draft.hear(message)
        if isinstance(message, Commit) and message.sequence_id not in self.draft.released:
            told = self._told(each)
            assert told == each.tokens[: len(told)]
            assert len(told) == len(each.tokens) or not message.wanted
            assert len(message.token_ids) <= MAX_COMMIT

    def _deliver(self, message: DraftMessage) -> None:
        each, num_observed = self._live(message.sequence_id), self.num_observed
        is_useful = self.predictor.hear(message)
        is_observed = self.num_observed > num_observed
        if each is None or each.is_released:
            assert not is_useful, "it is not at work on this"
        elif isinstance(message, Release):
            assert is_useful
            each.release()
        elif is_useful and (predictions := self.predictor.take(each, 100)):
            is_whole = self.draft.run_ahead > 0 or len(predictions) >= (each.window or 0)
            is_first = self.draft.run_ahead > 0 and not each.has_answered
            is_answer = isinstance(message, Prediction) and is_whole and each.has_answered and each.is_awaited
            assert not (is_observed and (is_first or each.is_overdue)), "that is no delay of an answer"
            assert is_observed or not is_answer or each.is_overdue is not False, "that is one"
            each.answer()

    def _check_predictions(self, each: ExpectedSequence, predictions: list[int]) -> None:
        text = [*each.tokens, *predictions]
        if self.draft is None or not each.sequence_id or each.is_released:
            assert predictions == []
        elif predictions and each.is_strict and not each.was_rewound:
            claims = self.draft.claims.get(each.sequence_id, [])
            assert any(claim[: len(text)] == text for claim in claims), "nobody has predicted that"
        assert len(predictions) <= MOST_PREDICTIONS + RUN_AHEAD

    def _check_settled(self, each: ExpectedSequence) -> None:
        side = self._side(each)
        if each.is_released or each.is_rewound or (side is None and not each.window):
            return
        if each.window:
            assert side.tokens == each.tokens
        if each.window is not None:
            assert side.window == each.window
        if each.is_strict and side.tokens == each.tokens and side.num_told == len(side.chain) > 0:
            assert self.predictor.take(each, 100) == side.chain


LinkMachine.TestCase.settings = settings(max_examples=35, stateful_step_count=40)
TestLinkMachine = LinkMachine.TestCase
