"""Scheduler: what sequences find of one another in the cache, and how the samples of one prompt share it."""

from services.engine.request import CachePolicy
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from tests.unit.scheduling import add, make_scheduler, shape, step
from tests.unit.sequences import make_request, make_sequence


async def test_a_sequence_starts_after_its_cached_prefix():
    scheduler = make_scheduler()
    (first,) = add(scheduler, 9)
    step(scheduler)
    again, longer = add(scheduler, 9, 30)
    other = make_sequence(make_request(b"xxxxyyyyz"))
    scheduler.add(other)
    assert shape(scheduler.schedule()) == [(first, 1), (again, 1), (longer, 16), (other, 5)]
    assert [sequence.num_cached for sequence in (first, again, longer, other)] == [0, 8, 8, 4]


async def test_cached_blocks_are_found_while_empty_blocks_remain():
    scheduler = make_scheduler(num_blocks=6, max_sequences=1)
    (first,) = add(scheduler, 12)  # three blocks, and a fourth for what it draws
    step(scheduler)
    scheduler.remove(first)
    others = [
        make_sequence(make_request(bytes([letter]) * 7)) for letter in b"abc"
    ]  # two blocks each; one stays cached
    for sequence in others:
        scheduler.add(sequence)
        step(scheduler)
        scheduler.remove(sequence)
    (again,) = add(scheduler, 12)
    scheduler.schedule()
    assert again.num_cached == 8  # its last block has gone, the first ones are there


async def test_a_sequence_without_room_leaves_its_cached_blocks_alone():
    scheduler = make_scheduler(num_blocks=6)
    (first,) = add(scheduler, 12)
    other = make_sequence(make_request(b"zzzzz"))
    scheduler.add(other)
    step(scheduler)
    (late,) = add(scheduler, 17)  # the first one's three blocks would do, but there is no room for two more
    assert shape(scheduler.schedule()) == [(first, 1), (other, 1)]
    assert (late.text.blocks, late.text.num_computed, late.num_cached) == ([], 0, 0)
    scheduler.remove(first)
    scheduler.remove(other)
    assert shape(scheduler.schedule()) == [(late, 5)]


def add_samples(scheduler: Scheduler, count: int, *, length: int = 10) -> list[Sequence]:
    """Add several samples of one prompt."""
    request = make_request(b"x" * length, cache=CachePolicy(prefix=False), num_samples=count)
    first = make_sequence(request)
    samples = [first, *(make_sequence(request.sample(i), first_sample=first) for i in range(1, count))]
    for sample in samples:
        scheduler.add(sample)
    return samples


async def test_samples_draw_together_once_one_has_computed_the_prompt():
    scheduler = make_scheduler(prefill_chunk=6)
    first, second, third = add_samples(scheduler, 3)
    (other,) = add(scheduler, 2)
    assert shape(step(scheduler)) == [(first, 6), (other, 2)]
    assert shape(step(scheduler)) == [(first, 3), (other, 1)]  # all but the last token
    assert shape(step(scheduler)) == [(first, 1), (other, 1), (second, 1), (third, 1)]
    assert first.text.blocks[:2] == second.text.blocks[:2] == third.text.blocks[:2]
    assert len({sample.text.blocks[2] for sample in (first, second, third)}) == 3


async def test_a_sample_without_a_slot_does_not_block_the_first():
    scheduler = make_scheduler(max_sequences=1)
    first, second = add_samples(scheduler, 2)
    assert [shape(step(scheduler)) for _ in range(2)] == [[(first, 9)], [(first, 1)]]
    scheduler.remove(first)
    assert shape(step(scheduler)) == [(second, 10)]  # no sequence has its prompt any more


async def test_a_sample_waits_no_longer_than_the_first_one_runs():
    scheduler = make_scheduler(prefill_chunk=6)
    first, second = add_samples(scheduler, 2)
    step(scheduler)
    assert scheduler.waiting == [second]
    scheduler.remove(first)
    assert shape(step(scheduler)) == [(second, 6)]
