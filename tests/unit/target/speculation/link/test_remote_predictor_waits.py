"""RemotePredictor: how long a step waits for predictions that are under way."""

import threading
import time

import pytest

from services.draft_protocol.messages import Prediction
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.wait_limit import WaitLimit
from tests.unit.linked_predictor import LinkedPredictor


def wait_for(predictor: LinkedPredictor, sequence: Sequence, count: int) -> float:
    return float(predictor.remote.times([sequence]).waits(count)[0, -1])


def reading(predictor: LinkedPredictor, sequence: Sequence) -> float | None:
    (times,) = predictor.remote.times([sequence]).sequences
    return times.reading


async def test_the_wait_is_for_predictions_that_the_chain_lacks(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    predictor = LinkedPredictor(longest_wait=10.0)
    sequence = predictor.add()
    predictor.sent()
    predictor.hear(5, b"ab")
    for epoch in range(2, 12):
        predictor.draw(sequence, b"x")
        now += 2
        predictor.hear(len(sequence.tokens), b"cd", epoch=epoch)
    assert wait_for(predictor, sequence, 2) == 0
    predictor.draw(sequence, b"y")
    assert wait_for(predictor, sequence, 2) == pytest.approx(2)
    now += 1.5
    assert wait_for(predictor, sequence, 2) == pytest.approx(0.5)


async def test_without_a_link_nothing_is_sent_and_no_step_waits():
    predictor = LinkedPredictor(is_connected=False, longest_wait=1e6)
    sequence = predictor.add()
    assert predictor.sent() == []
    assert predictor.predict(sequence, 4) == []
    assert predictor.remote.absence == "the draft has not been reached yet"


async def test_a_step_waits_for_predictions_that_are_under_way():
    predictor = LinkedPredictor(longest_wait=60.0)
    sequence = predictor.add()
    predictor.sent()
    speaker = threading.Thread(target=lambda: [predictor.hear(5, b"ab"), predictor.hear(7, b"cd")])
    speaker.start()
    assert predictor.predict(sequence, 4) == [*b"abcd"]
    speaker.join()


@pytest.mark.parametrize("end", ["disconnected", "released"])
async def test_a_wait_ends_with_the_link_or_the_release(end):
    predictor = LinkedPredictor(longest_wait=60.0)
    sequence = predictor.add()
    predictor.sent()
    if end == "disconnected":
        ender = threading.Timer(0.05, predictor.remote.disconnected, ["it is gone"])
    else:
        ender = threading.Timer(0.05, predictor.hear_release, [1, "REFUSED"])
    ender.start()
    assert predictor.predict(sequence, 4) == []
    ender.join()


async def test_predictions_that_never_come_are_not_waited_for_for_ever():
    predictor = LinkedPredictor(longest_wait=0.01)
    sequence = predictor.add()
    for _ in range(5):
        predictor.draw(sequence, b"x")
        assert predictor.predict(sequence, 4) == []


async def test_after_vain_waits_a_new_link_is_waited_for():
    predictor = LinkedPredictor(longest_wait=0.2)
    sequence = predictor.add()
    for _ in range(4):
        predictor.draw(sequence, b"x")
        assert predictor.predict(sequence, 4) == []
    predictor.remote.disconnected("it hung")
    predictor.connect()
    predictor.draw(sequence, b"y")
    predictor.sent()
    speaker = threading.Timer(0.02, lambda: predictor.hear(10, b"abcd", sequence_id=2))
    speaker.start()
    assert predictor.predict(sequence, 4) == [*b"abcd"]
    speaker.join()


async def test_a_pause_is_no_delay_of_the_draft(monkeypatch):
    now, delays = 100.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(WaitLimit, "arrived", lambda self, count, delay, num_sequences: delays.append((count, delay)))
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.sent()
    now += 500
    assert predictor.hear(5, b"a"), "for which it had to read the prompt"
    predictor.draw(sequence, b"x")
    now += 1
    assert predictor.hear(6, b"bc", epoch=2)
    predictor.predict(sequence, 0)
    now += 1000
    predictor.draw(sequence, b"y")
    predictor.sent()
    now += 1000
    predictor.predict(sequence, 2)
    now += 3
    assert predictor.hear(7, b"b", epoch=3)
    assert delays == [(2, 1), (1, 3)]


async def test_answers_are_timed_with_the_sequences_asked_together(monkeypatch):
    seen = []
    monkeypatch.setattr(
        WaitLimit, "arrived", lambda self, count, delay, num_sequences: seen.append((count, num_sequences))
    )
    predictor = LinkedPredictor(longest_wait=1.0)
    predictor.connect(run_ahead=0)
    sequences = [predictor.add(b"x") for _ in range(3)]
    for asked in (sequences, sequences[:1]):
        for sequence in asked:
            predictor.remote.ask(sequence, 2)
        predictor.sent()
        for sequence_id, sequence in enumerate(asked, start=1):
            position = len(sequence.tokens)
            run = b"ab" if sequence_id == 2 else b"a"  # the others end early, but come with the longest
            assert predictor.remote.hear(Prediction(sequence_id, position, position, tuple(run), ends=True))
        for sequence in sequences:
            predictor.draw(sequence, b"z")
    assert seen == [(2, 3), (1, 1)]


async def test_an_answer_in_several_runs_is_measured_with_its_last_one(monkeypatch):
    seen = []
    monkeypatch.setattr(WaitLimit, "arrived", lambda self, count, delay, num_sequences: seen.append(count))
    predictor = LinkedPredictor(longest_wait=1.0)
    predictor.connect(run_ahead=0)
    sequence = predictor.add(b"x")
    for epoch in (1, 2):
        predictor.remote.ask(sequence, 3)
        predictor.sent()
        position = len(sequence.tokens)
        for index, token in enumerate(b"abc"):
            assert seen == [3] * (epoch - 1)
            assert predictor.hear(position + index, bytes([token]), epoch=epoch)
        predictor.draw(sequence, b"z")
    assert seen == [3, 3]


async def test_a_dropped_sequence_does_not_delay_the_timing_of_others(monkeypatch):
    seen = []
    monkeypatch.setattr(WaitLimit, "arrived", lambda self, count, delay, num_sequences: seen.append(count))
    predictor = LinkedPredictor(longest_wait=1.0)
    predictor.connect(run_ahead=0)
    dropped, followed = predictor.add(b"x"), predictor.add(b"y")
    predictor.remote.ask(dropped, 1)
    predictor.sent()
    assert predictor.hear_release(1, "too long")
    predictor.draw(dropped, b"z")
    for sequence in (dropped, followed):
        predictor.remote.ask(sequence, 2)
    predictor.sent()
    assert predictor.hear(len(followed.tokens), b"ab", sequence_id=2)
    assert seen == [2]


async def test_answers_beside_a_draft_prefill_are_not_timed(monkeypatch):
    seen = []
    monkeypatch.setattr(WaitLimit, "arrived", lambda self, count, delay, num_sequences: seen.append(num_sequences))
    predictor = LinkedPredictor(longest_wait=1.0)
    predictor.connect(run_ahead=0)
    short, long = predictor.add(b"x"), predictor.add(b"x" * 40)
    for round_number in range(2):
        for sequence in (short, long):
            predictor.remote.ask(sequence, 2)
        predictor.sent()
        for sequence_id, sequence in enumerate((short, long), start=1):
            position = len(sequence.tokens)
            assert predictor.hear(position, b"ab", sequence_id=sequence_id, epoch=position)
        assert seen == [2] * round_number
        for sequence in (short, long):
            predictor.draw(sequence, b"z")


async def test_draft_prefill_costs_time_only_on_the_targets_cores(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    predictor = LinkedPredictor(longest_wait=1.0)
    assert reading(predictor, predictor.add(b"x" * 40)) == 0
    predictor.connect(run_ahead=0)
    first, second = predictor.add(b"x" * 40), predictor.add(b"y" * 80)
    assert reading(predictor, first) is None
    predictor.remote.ask(first, 4)
    predictor.sent()
    assert reading(predictor, first) is None, "it is under way"
    assert wait_for(predictor, first, 4) == 0, "nobody knows yet"
    now += 0.4
    assert predictor.hear(40, b"abcd", sequence_id=2)
    assert reading(predictor, second) == pytest.approx(0.8)
    predictor.draw(first, b"abcdx")
    predictor.remote.ask(first, 1)
    now += 0.1
    assert predictor.hear(45, b"y", sequence_id=2, epoch=2)
    assert wait_for(predictor, second, 1) == pytest.approx(0.1), "what is new is predicted no sooner"
    assert reading(predictor, first) == 0


async def test_a_vain_wait_for_a_draft_prefill_lengthens_its_estimate(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    predictor = LinkedPredictor(longest_wait=1.0)
    predictor.connect(run_ahead=0)
    first, second = predictor.add(b"x" * 40), predictor.add(b"y" * 80)
    predictor.remote.ask(first, 4)
    predictor.sent()
    now += 1.0
    assert predictor.remote.take(first, 4, until=now + 1e-9) == []
    assert reading(predictor, second) == pytest.approx(2 * 1.5)
    assert 0 < reading(predictor, first) < 1.0, "of it a second is over"


async def test_a_silent_draft_running_ahead_is_not_expected_at_once():
    predictor = LinkedPredictor(longest_wait=1.0)
    sequence = predictor.add(b"x" * 40)
    predictor.sent()
    assert wait_for(predictor, sequence, 4) == 0, "it may have read while the target did"
    assert predictor.remote.take(sequence, 4, until=time.monotonic() + 0.01) == []
    assert wait_for(predictor, sequence, 4) >= 0.015


async def test_after_a_new_link_no_step_waits_for_the_old_requests():
    predictor = LinkedPredictor(longest_wait=1.0)
    predictor.connect(run_ahead=0)
    sequence = predictor.add(b"x")
    predictor.remote.ask(sequence, 4)
    predictor.remote.disconnected("gone")
    predictor.connect(run_ahead=0)
    assert predictor.remote.take(sequence, 4, until=time.monotonic() + 60.0) == []
    assert predictor.remote.granted == 0
