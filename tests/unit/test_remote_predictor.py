"""RemotePredictor: what a draft is told of the live sequences, and what becomes of what it says."""

import threading
import time

import pytest

from services.engine.request import SpeculationPolicy
from services.engine.sequence import Sequence
from services.rpc.draft_protocol import MAX_COMMIT
from services.target.draft_messages import Close, Commit, Open, Outgoing, Window
from services.target.patience import Patience
from services.target.remote_predictor import RemotePredictor
from tests.unit.sequences import make_request, make_sequence, records_of

RUN_AHEAD = 8
PROMPT = b"Hello"


class Predictor:
    """A predictor with one link, on which nothing was said yet."""

    def __init__(self, *, longest_wait: float = 0.0, is_connected: bool = True) -> None:
        self.num_wakes = 0
        self.remote = RemotePredictor(
            run_ahead=RUN_AHEAD, patience=Patience(longest=longest_wait), on_outgoing=self._wake
        )
        if is_connected:
            self.remote.connected()

    def _wake(self) -> None:
        self.num_wakes += 1

    def add(self, prompt: bytes = PROMPT) -> Sequence:
        sequence = make_sequence(make_request(prompt, speculation=SpeculationPolicy(num_predictions=4)))
        self.remote.commit(sequence)
        return sequence

    def draw(self, sequence: Sequence, tokens: bytes) -> None:
        sequence.commit(records_of(tokens))
        self.remote.commit(sequence)

    def sent(self) -> list[Outgoing]:
        return [*self.remote.outgoing()]

    def hear(self, position: int, tokens: bytes, *, epoch: int = 1, sequence_id: int = 1) -> bool:
        return self.remote.predicted(sequence_id, epoch=epoch, position=position, token_ids=[*tokens])


async def test_a_sequence_is_opened_with_its_tokens_and_a_window():
    predictor = Predictor()
    sequence = predictor.add()
    assert predictor.num_wakes
    assert predictor.sent() == [Open(1, sequence), Commit(1, 0, [*PROMPT]), Window(1, 4 + RUN_AHEAD)]
    assert predictor.sent() == []


async def test_commits_that_wait_become_one():
    predictor = Predictor()
    sequence = predictor.add()
    predictor.sent()
    for token in b"abc":
        predictor.draw(sequence, bytes([token]))
    assert predictor.sent() == [Commit(1, 5, [*b"abc"])]


async def test_a_pass_that_adds_no_token_is_no_news():
    predictor = Predictor()
    sequence = predictor.add()
    predictor.sent()
    num_wakes = predictor.num_wakes
    predictor.remote.commit(sequence)
    assert (predictor.num_wakes, predictor.sent()) == (num_wakes, [])


async def test_a_long_prompt_goes_in_pieces_and_sequences_take_turns():
    predictor = Predictor()
    long, short = predictor.add(bytes(2 * MAX_COMMIT + 1)), predictor.add()
    messages = predictor.sent()
    assert messages[:4] == [Open(1, long), Open(2, short), Commit(1, 0, [0] * MAX_COMMIT), Commit(2, 0, [*PROMPT])]
    pieces = [message for message in messages if isinstance(message, Commit) and message.sequence_id == 1]
    assert [(piece.position, len(piece.token_ids)) for piece in pieces] == [
        (0, MAX_COMMIT),
        (MAX_COMMIT, MAX_COMMIT),
        (2 * MAX_COMMIT, 1),
    ]


async def test_a_step_that_wants_no_predictions_pauses_the_draft():
    predictor = Predictor()
    sequence = predictor.add()
    predictor.sent()
    assert predictor.remote.predict(sequence, 0) == []
    assert predictor.sent() == [Window(1, 0)]
    predictor.remote.predict(sequence, 0)
    assert predictor.sent() == []
    predictor.remote.predict(sequence, 2)
    assert predictor.sent() == [Window(1, 2 + RUN_AHEAD)]


async def test_predictions_are_those_that_continue_what_is_committed():
    predictor = Predictor()
    sequence = predictor.add()
    predictor.hear(5, b"abc")
    assert predictor.remote.predict(sequence, 2) == [*b"ab"]
    predictor.draw(sequence, b"ab")
    assert predictor.remote.predict(sequence, 4) == [*b"c"]
    predictor.draw(sequence, b"x")
    assert predictor.remote.predict(sequence, 4) == []


async def test_a_closed_sequence_is_told_and_what_is_still_said_of_it_is_ignored():
    predictor = Predictor()
    sequence = predictor.add()
    predictor.sent()
    predictor.remote.close(sequence)
    assert predictor.sent() == [Close(1)]
    assert not predictor.hear(5, b"abc")
    predictor.remote.released(1, "why not")
    assert sequence.speculation.dropped == ""


async def test_a_sequence_that_ends_before_it_was_told_of_is_never_told_of():
    predictor = Predictor()
    predictor.remote.close(predictor.add())
    assert predictor.sent() == []


async def test_without_a_link_nothing_is_to_be_sent_and_nobody_waits():
    predictor = Predictor(is_connected=False, longest_wait=1e6)
    sequence = predictor.add()
    assert predictor.sent() == []
    assert predictor.remote.predict(sequence, 4) == []
    assert predictor.remote.absence == "the draft has not been reached yet"


async def test_a_new_link_opens_every_live_sequence_under_another_id():
    predictor = Predictor()
    sequences = [predictor.add(), predictor.add(b"abc")]
    predictor.sent()
    predictor.hear(5, b"old")
    predictor.remote.close(predictor.add())
    predictor.remote.disconnected("it is gone")
    assert predictor.remote.absence == "it is gone"
    assert predictor.remote.predict(sequences[0], 4) == []
    predictor.remote.connected()
    assert (predictor.remote.absence, predictor.remote.num_arrivals) == ("", 2)
    messages = predictor.sent()
    ids = [message.sequence_id for message in messages if isinstance(message, Open)]
    assert len(set(ids)) == 2
    assert not set(ids) & {1, 2, 3}
    assert Commit(ids[0], 0, [*PROMPT]) in messages
    predictor.hear(5, b"old", sequence_id=1)
    assert predictor.remote.predict(sequences[0], 4) == []
    predictor.hear(5, b"new", sequence_id=ids[0])
    assert predictor.remote.predict(sequences[0], 4) == [*b"new"]
    assert [(s.speculation.losses, s.speculation.returns) for s in sequences] == [(1, 1), (1, 1)]


async def test_a_released_sequence_goes_on_alone_until_there_is_another_link(caplog):
    caplog.set_level("INFO")
    predictor = Predictor(longest_wait=1e6)
    sequence = predictor.add()
    predictor.sent()
    predictor.hear(5, b"abc")
    for _ in range(3):
        predictor.remote.released(1, "OUT_OF_MEMORY")
    assert "OUT_OF_MEMORY" in sequence.speculation.dropped
    assert caplog.messages == ["request test: the draft dropped it: OUT_OF_MEMORY"], "saying it again is no news"
    assert predictor.remote.predict(sequence, 4) == []
    predictor.draw(sequence, b"a")
    assert predictor.sent() == []
    assert (sequence.speculation.losses, sequence.speculation.returns) == (1, 0)
    predictor.remote.disconnected("it is gone")
    predictor.remote.connected()
    assert isinstance(predictor.sent()[0], Open)
    assert (sequence.speculation.losses, sequence.speculation.returns) == (1, 1)


async def test_a_sequence_that_is_released_before_all_is_told_of_it_is_told_of_no_more():
    predictor = Predictor()
    predictor.add(bytes(2 * MAX_COMMIT))
    outgoing = predictor.remote.outgoing()
    assert [type(next(outgoing)) for _ in range(2)] == [Open, Commit]
    predictor.remote.released(1, "TOO_LONG")
    assert [*outgoing] == []


async def test_a_step_waits_for_predictions_that_are_under_way():
    predictor = Predictor(longest_wait=60.0)
    sequence = predictor.add()
    speaker = threading.Thread(target=lambda: [predictor.hear(5, b"ab"), predictor.hear(7, b"cd")])
    speaker.start()
    assert predictor.remote.predict(sequence, 4) == [*b"abcd"]
    speaker.join()


@pytest.mark.parametrize("end", ["disconnected", "released"])
async def test_a_wait_ends_with_the_link_or_the_release(end):
    predictor = Predictor(longest_wait=60.0)
    sequence = predictor.add()
    if end == "disconnected":
        ender = threading.Timer(0.05, predictor.remote.disconnected, ["it is gone"])
    else:
        ender = threading.Timer(0.05, predictor.remote.released, [1, "REFUSED"])
    ender.start()
    assert predictor.remote.predict(sequence, 4) == []
    ender.join()


async def test_predictions_that_never_come_are_not_waited_for_for_ever():
    predictor = Predictor(longest_wait=0.01)
    sequence = predictor.add()
    for _ in range(5):
        predictor.draw(sequence, b"x")
        assert predictor.remote.predict(sequence, 4) == []


async def test_after_vain_waits_a_new_link_is_waited_for():
    predictor = Predictor(longest_wait=0.2)
    sequence = predictor.add()
    for _ in range(4):
        predictor.draw(sequence, b"x")
        assert predictor.remote.predict(sequence, 4) == []
    predictor.remote.disconnected("it hung")
    predictor.remote.connected()
    predictor.draw(sequence, b"y")
    speaker = threading.Timer(0.02, lambda: predictor.hear(10, b"abcd", sequence_id=2))
    speaker.start()
    assert predictor.remote.predict(sequence, 4) == [*b"abcd"]
    speaker.join()


async def test_a_pause_is_no_delay_of_the_draft(monkeypatch):
    now, delays = 100.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(Patience, "arrived", lambda self, delay: delays.append(delay))
    predictor = Predictor()
    sequence = predictor.add()
    now += 1
    assert predictor.hear(5, b"a")
    predictor.draw(sequence, b"x")
    predictor.remote.predict(sequence, 0)
    now += 1000
    predictor.draw(sequence, b"y")
    now += 1000
    predictor.remote.predict(sequence, 2)
    now += 3
    assert predictor.hear(7, b"b", epoch=2)
    assert delays == [1, 3]


async def test_a_flood_takes_no_room():
    predictor = Predictor()
    sequence = predictor.add()
    assert predictor.hear(5, b"z" * (4 + RUN_AHEAD))
    for position in range(5 + 4 + RUN_AHEAD, 200):
        assert not predictor.hear(position, b"z")
    assert predictor.remote.predict(sequence, 1000) == []
    assert predictor.hear(5, b"y", epoch=2)
    assert predictor.remote.predict(sequence, 4) == [*b"y"]


@pytest.mark.parametrize(
    ("epoch", "position", "tokens"), [(0, 5, b"a"), (1, 6, b"a"), (1, 2**32 - 1, b"a"), (1, 4, b"xa"), (1, 5, b"")]
)
async def test_a_run_that_makes_no_sense_is_left_out(epoch, position, tokens):
    predictor = Predictor()
    sequence = predictor.add()
    assert not predictor.hear(position, tokens, epoch=epoch)
    assert predictor.remote.predict(sequence, 4) == []
