"""FairQueue: callers get tokens by weight, priorities order a caller's own requests, and every request starts."""

from collections import Counter
from itertools import count

import pytest

from services.engine.request import Share
from services.target.scheduling.fair_queue import FairQueue
from services.target.sequence.sequence import Sequence
from tests.unit.scheduling import make_scheduler, shape, step
from tests.unit.sequences import make_request, make_sequence


def waiting(caller: str, num_tokens: int = 10, *, weight: float = 1.0, priority: int = 0) -> Sequence:
    share = Share(caller=caller, weight=weight, priority=priority)
    return make_sequence(make_request(caller[:1].encode() * num_tokens, share=share))


def start_next(queue: FairQueue) -> Sequence:
    sequence = queue.first(lambda _: True)
    assert sequence is not None
    assert queue.first(lambda _: True) is sequence
    queue.take(sequence)
    return sequence


def callers(started: list[Sequence]) -> str:
    return "".join(sequence.request.share.caller for sequence in started)


def tokens_by_caller(started: list[Sequence]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for sequence in started:
        counted[sequence.request.share.caller] += len(sequence.tokens)
    return counted


async def test_one_callers_sequences_start_in_arrival_order():
    queue = FairQueue()
    added = [waiting("a") for _ in range(4)]
    for sequence in reversed(added):
        queue.add(sequence)
    assert [start_next(queue) for _ in range(4)] == added
    assert queue.first(lambda _: True) is None


async def test_callers_with_many_and_few_requests_get_equal_turns():
    queue = FairQueue()
    for caller, number in (("a", 1000), ("b", 3), ("c", 1)):
        for _ in range(number):
            queue.add(waiting(caller, 256))
    assert callers([start_next(queue) for _ in range(10)]) == "abcababaaa"


@pytest.mark.parametrize(("lengths", "weights", "share"), [((50, 800), (1, 1), 0.5), ((300, 300), (3, 1), 0.75)])
async def test_shares_are_of_tokens_and_by_weight(lengths, weights, share):
    queue = FairQueue()
    for caller, length, weight in zip("ab", lengths, weights, strict=True):
        for _ in range(20_000 // length):
            queue.add(waiting(caller, length, weight=weight))
    started = []
    while len({sequence.request.share.caller for sequence in queue}) == 2:
        started.append(start_next(queue))
        got = tokens_by_caller(started)
        assert abs(got["a"] - share * got.total()) < 1600  # two rounds, and two of the longest
    assert got["a"] == pytest.approx(share * got.total(), abs=800)


async def test_the_tokens_of_answers_count_too():
    queue = FairQueue()
    for caller in "ab" * 100:
        queue.add(waiting(caller))
    started = []
    for _ in range(100):
        started.append(start_next(queue))
        queue.charge(started[-1], 990 if started[-1].request.share.caller == "a" else 90)
    assert Counter(callers(started))["b"] == pytest.approx(10 * Counter(callers(started))["a"], abs=10)


async def test_priorities_order_only_a_callers_own_requests():
    queue = FairQueue()
    plain, urgent, other = waiting("a"), waiting("a", priority=5), waiting("b", 300)
    for sequence in (other, plain, urgent):
        queue.add(sequence)
    assert [start_next(queue) for _ in range(3)] == [other, urgent, plain]


async def test_a_negative_priority_starts_after_all_other_callers():
    queue = FairQueue()
    humble, plain = waiting("a", priority=-1), [waiting("b"), waiting("a"), waiting("b")]
    for sequence in (humble, *plain):
        queue.add(sequence)
    assert {start_next(queue) for _ in range(3)} == {*plain}
    assert start_next(queue) is humble


@pytest.mark.parametrize("priority", [-10, 0])
async def test_an_old_request_starts_despite_newer_urgent_ones(priority):
    queue = FairQueue()
    old = [waiting("a", priority=priority) for _ in range(3)]
    for sequence in old:
        queue.add(sequence)
    started = []
    for _ in range(24):
        for caller in "abc":
            queue.add(waiting(caller, priority=10))
        started.append(start_next(queue))
    assert [sequence for sequence in started if sequence in old] == old
    assert [started.index(sequence) for sequence in old] == [7, 15, 23]


async def test_a_caller_in_debt_is_started_despite_new_callers():
    queue = FairQueue()
    greedy = [waiting("a", 2000), waiting("a")]
    for sequence in greedy:
        queue.add(sequence)
    started = []
    names = (f"b{number}" for number in count())
    for _ in range(10):
        queue.add(waiting(next(names), 300))
    for _ in range(120):
        queue.add(waiting(next(names), 300))
        started.append(start_next(queue))
    assert {*greedy} <= {*started}


async def test_a_sequence_that_is_not_ready_keeps_no_other_waiting():
    queue = FairQueue()
    first, second, other = waiting("a"), waiting("a"), waiting("b")
    for sequence in (first, second, other):
        queue.add(sequence)
    assert queue.first(lambda sequence: sequence is second) is second
    assert queue.first(lambda _: False) is None
    assert queue.remove(second)
    assert not queue.remove(second)
    assert [start_next(queue), start_next(queue)] == [first, other]
    assert [*queue] == []


async def test_prompts_of_several_callers_share_the_rows_of_a_pass():
    scheduler = make_scheduler(max_rows=8, prefill_chunk=4, max_sequences=8, num_blocks=4096)
    long = [waiting("a", 3000) for _ in range(3)]
    for sequence in long:
        scheduler.add(sequence)
    assert shape(step(scheduler)) == [(long[0], 4), (long[1], 4)]
    short = waiting("b", 12)
    scheduler.add(short)
    for _ in range(200):
        step(scheduler)
        if short.num_pending == 1:
            break
    done = sum(sequence.text.num_computed for sequence in long)
    assert short.num_pending == 1
    assert done <= 8 + 256 + 12, "at most a round's tokens before it, and as many rows as it had beside it"


async def test_a_preempted_sequence_resumes_before_others_are_started():
    scheduler = make_scheduler(num_blocks=4, max_sequences=2)
    old, young = waiting("a", 7), waiting("c", 7)
    for sequence in (old, young):
        scheduler.add(sequence)
    step(scheduler)
    step(scheduler)
    other = waiting("b", 1, priority=10)
    scheduler.add(other)
    step(scheduler)
    assert scheduler.waiting == [young, other]
    scheduler.remove(old)
    assert [sequence for sequence, _ in shape(scheduler.schedule())] == [young, other]
