"""Scheduler: which sequences a pass computes, which wait, and which make way when slots or KV blocks run out."""

import math
import time

import pytest

from services.engine.events import Chunk
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream
from tests.unit.scheduling import add, make_scheduler, shape, step
from tests.unit.sequences import draw, make_request, make_sequence, make_stream


async def pause(sequence: Sequence) -> None:
    """Draw until the sequence's stream is full."""
    while not sequence.is_paused:
        draw(sequence, b"y")


async def test_an_empty_scheduler_schedules_nothing():
    assert make_scheduler().schedule() == []


async def test_a_prompt_is_computed_in_chunks_and_the_last_one_draws():
    scheduler = make_scheduler(prefill_chunk=4)
    add(scheduler, 10)
    batches = [step(scheduler)[0] for _ in range(4)]
    assert [(rows.num_rows, rows.draws, rows.is_decode, rows.num_draws) for rows in batches] == [
        (4, False, False, 0),
        (4, False, False, 0),
        (2, True, False, 1),
        (1, True, True, 1),
    ]


async def test_older_sequences_come_first():
    scheduler = make_scheduler(max_sequences=2)
    first, second, third = added = [make_sequence(make_request(b"abc")) for _ in range(3)]
    for sequence in reversed(added):
        scheduler.add(sequence)
    assert shape(scheduler.schedule()) == [(first, 3), (second, 3)]
    assert scheduler.waiting == [third]


async def test_prompts_leave_rows_for_every_decode():
    scheduler = make_scheduler(max_rows=8, prefill_chunk=16)
    old, middle, young = add(scheduler, 6, 3, 1)
    step(scheduler)  # old whole, one row of middle, and the young one's only row
    assert [sequence.num_pending for sequence in (old, middle, young)] == [1, 2, 1]
    (late,) = add(scheduler, 30)
    assert shape(step(scheduler)) == [(old, 1), (middle, 2), (young, 1), (late, 4)]
    assert shape(step(scheduler)) == [(old, 1), (middle, 1), (young, 1), (late, 5)]


async def test_an_old_prompt_leaves_rows_for_younger_decodes():
    scheduler = make_scheduler(max_rows=4, prefill_chunk=16)
    old, young = add(scheduler, 40, 1)
    for _ in range(3):
        assert shape(step(scheduler)) == [(old, 3), (young, 1)]


async def test_every_sequence_decodes_in_every_pass():
    scheduler = make_scheduler(max_rows=4, max_sequences=4)
    sequences = add(scheduler, 1, 1, 1, 1)
    for _ in range(5):
        assert shape(step(scheduler)) == [(sequence, 1) for sequence in sequences]


async def test_the_youngest_makes_way_when_blocks_run_out():
    scheduler = make_scheduler(num_blocks=4)
    old, middle, young = add(scheduler, 4, 3, 3)
    step(scheduler)
    assert len(step(scheduler)) == 3  # the old one takes the last block
    assert shape(step(scheduler)) == [(old, 1), (middle, 1)]  # the middle one that of the young
    assert scheduler.waiting == [young]
    assert (young.text.blocks, young.text.num_computed, young.num_preemptions) == ([], 0, 1)
    assert scheduler.num_preemptions == 1


async def test_the_youngest_makes_way_even_on_its_own_turn():
    scheduler = make_scheduler(num_blocks=3)
    old, young = add(scheduler, 5, 3)
    step(scheduler)
    assert shape(step(scheduler)) == [(old, 1), (young, 1)]
    assert shape(step(scheduler)) == [(old, 1)]  # the young one needs a second block, and there is none
    assert scheduler.waiting == [young]


async def test_a_preempted_sequence_goes_before_those_that_came_later():
    scheduler = make_scheduler(num_blocks=3)
    old, young = add(scheduler, 5, 3)
    for _ in range(3):
        step(scheduler)
    (late,) = add(scheduler, 1)
    assert shape(step(scheduler)) == [(old, 1)]
    assert scheduler.waiting == [young, late]  # a block is free, but the late one, for whom it would do, waits its turn
    scheduler.remove(old)
    assert shape(scheduler.schedule()) == [(young, 1), (late, 1)]  # what the young one had computed is still there


async def test_a_paused_sequence_is_left_out_and_keeps_its_blocks():
    scheduler = make_scheduler()
    slow, quick = add(scheduler, 3, 3, capacity=2)
    step(scheduler)
    await pause(slow)
    assert shape(scheduler.schedule()) == [(quick, 1)]
    assert len(slow.text.blocks) == 1


async def read_token(stream: TokenStream) -> None:
    """Read what comes before a token, and the token."""
    async for event in stream:
        if isinstance(event, Chunk):
            return


async def test_a_paused_sequence_resumes_when_its_stream_is_read():
    stream = make_stream(capacity=1)
    sequence = make_sequence(make_request(b"abc"), stream)
    scheduler = make_scheduler()
    scheduler.add(sequence)
    step(scheduler)
    assert scheduler.schedule() == []
    await read_token(stream)
    assert shape(scheduler.schedule()) == [(sequence, 1)]


async def test_a_paused_sequence_makes_way_before_the_youngest():
    scheduler = make_scheduler(num_blocks=3)
    (slow,) = add(scheduler, 3, capacity=1)
    step(scheduler)
    old, young = add(scheduler, 3, 2)
    assert shape(step(scheduler)) == [(old, 3), (young, 2)]
    assert shape(step(scheduler)) == [(old, 1), (young, 1)]
    assert shape(step(scheduler)) == [(old, 1), (young, 1)]  # the old one needs a second block
    assert scheduler.waiting == [slow]
    assert (slow.text.blocks, slow.num_preemptions) == ([], 1)


@pytest.mark.parametrize("scarce", [{"max_sequences": 2}, {"num_blocks": 2}])
async def test_unread_sequences_do_not_keep_others_waiting(scarce):
    scheduler = make_scheduler(**scarce)
    slow = add(scheduler, 3, 3, capacity=1)
    step(scheduler)
    assert all(sequence.is_paused for sequence in slow)
    (late,) = add(scheduler, 3)
    assert shape(scheduler.schedule()) == [(late, 3)]
    assert scheduler.waiting == [slow[1]]


async def test_a_paused_sequence_that_made_way_waits_until_it_is_read():
    scheduler = make_scheduler(max_sequences=1)
    stream = make_stream(capacity=1)
    slow = make_sequence(make_request(b"abc"), stream)
    scheduler.add(slow)
    step(scheduler)
    (late,) = add(scheduler, 3)
    step(scheduler)
    scheduler.remove(late)
    assert scheduler.schedule() == []
    await read_token(stream)
    assert shape(scheduler.schedule()) == [(slow, 4)]  # anew, with the token it had drawn


async def test_predictions_take_free_blocks_only():
    scheduler = make_scheduler(num_blocks=3)
    old, young = add(scheduler, 2, 2)
    step(scheduler)
    rows, others = scheduler.schedule()
    scheduler.add_predictions(rows, [*b"abcdefgh"])
    assert bytes(rows.predictions) == b"abcde"  # three tokens and five predictions fill two blocks
    assert (rows.num_rows, rows.num_draws) == (6, 6)
    scheduler.add_predictions(others, [*b"abc"])
    assert bytes(others.predictions) == b"a"
    assert (len(old.text.blocks), len(young.text.blocks)) == (2, 1)
    assert scheduler.num_preemptions == 0


async def test_predictions_take_the_rows_that_a_pass_has_left():
    scheduler = make_scheduler(max_rows=9)
    add(scheduler, 2, 2, 2)
    step(scheduler)
    batch = scheduler.schedule()
    assert scheduler.spare_rows == 6
    for rows in batch:
        scheduler.add_predictions(rows, [*b"abcd"])
    assert [bytes(rows.predictions) for rows in batch] == [b"abcd", b"ab", b""]
    assert scheduler.spare_rows == 0
    assert sum(rows.num_rows for rows in batch) == 9
    scheduler.schedule()
    assert scheduler.spare_rows == 6


@pytest.mark.parametrize(("num_accepted", "num_blocks"), [(0, 1), (1, 2), (4, 2), (5, 3)])
async def test_blocks_of_rejected_predictions_are_given_back(num_accepted, num_blocks):
    scheduler = make_scheduler(num_blocks=8)
    (sequence,) = add(scheduler, 2)
    step(scheduler)
    (rows,) = scheduler.schedule()
    scheduler.add_predictions(rows, [*b"abcdefgh"])
    assert len(sequence.text.blocks) == 3
    scheduler.settle(rows, draw(sequence, b"abcdefgh"[:num_accepted] + b"!"))
    assert len(sequence.tokens) == 4 + num_accepted
    assert sequence.num_pending == 1
    assert len(sequence.text.blocks) == num_blocks


async def test_only_sequences_past_their_deadline_are_expired():
    scheduler = make_scheduler(max_sequences=1)
    deadlines = [None, 0.0, time.monotonic() - 1, time.monotonic() + 3600]
    sequences = [make_sequence(make_request(deadline=deadline)) for deadline in deadlines]
    for sequence in sequences:
        scheduler.add(sequence)
    assert scheduler.expired() == sequences[1:3]


async def test_the_next_expiry_is_the_earliest_of_all_that_are_left():
    scheduler = make_scheduler(max_sequences=1)
    assert scheduler.next_expiry() == math.inf
    forever, last, first = (make_sequence(make_request(b"abc", deadline=deadline)) for deadline in (None, 3e9, 2e9))
    for sequence in (forever, last, first):
        scheduler.add(sequence)
    step(scheduler)  # one runs, the others wait
    assert scheduler.next_expiry() == 2e9
    for sequence, expiry in ((first, 3e9), (last, math.inf), (forever, math.inf)):
        scheduler.remove(sequence)
        assert scheduler.next_expiry() == expiry


async def test_a_removed_sequence_frees_its_blocks_and_slot():
    scheduler = make_scheduler(max_sequences=1, num_blocks=4)
    running, waiting = add(scheduler, 9, 9)
    step(scheduler)
    assert scheduler.remove(running)
    assert running.text.blocks == []
    assert scheduler.remove(waiting)
    assert scheduler.sequences == []
    assert not scheduler.remove(running)
    late = make_sequence(make_request(b"z" * 15))
    scheduler.add(late)
    assert shape(scheduler.schedule()) == [(late, 15)]  # every block is free again
