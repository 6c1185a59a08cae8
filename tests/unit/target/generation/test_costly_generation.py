"""Where a grammar's limit ends an answer depends on its tokens alone, whatever was predicted or taken back before."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import count, islice
from random import Random

import pytest

from services.engine.events import FinishReason
from services.engine.request import Request
from tests.unit.banned_model import answer
from tests.unit.banned_target import Target, complete, make, tuple_of
from tests.unit.costly_requests import costly_request

NUM_BLOCKS, NUM_STREAMS = 10, 50


def requests(first_seed: int, num: int) -> Iterable[Request]:
    return islice((request for seed in count(first_seed) if (request := costly_request(seed)) is not None), num)


async def continue_at_every_token(request: Request, seed: int) -> Counter[str]:
    """Compare an answer, with predictions and without, and all its continuations with those of the rule."""
    whole = answer(request)
    for predicts in (False, True):
        (generation,) = await complete(Target(num_blocks=24, predicts=predicts, random=Random(seed)), request)
        assert generation.answer() == tuple_of(whole), f"seed {seed}"
    for cut in range(1, len(whole.ids)):
        rest = replace(request, received=tuple(whole.ids[:cut]))
        (generation,) = await complete(Target(num_blocks=24, predicts=False), rest)
        ids, _, reason, suppressed = generation.answer()
        assert (whole.ids[:cut] + ids, reason) == (whole.ids, whole.reason), f"seed {seed}, cut {cut}"
        assert suppressed == [one for one, due in zip(whole.suppressed, whole.due, strict=True) if due >= cut]
    is_limited = whole.reason is FinishReason.GRAMMAR_INCOMPLETE
    return Counter({"streams": 1, "limited": is_limited, "taken back": bool(whole.suppressed)})


def check(first_seed: int, num: int) -> None:
    found: Counter[str] = Counter()
    for seed, request in enumerate(requests(first_seed, num), start=first_seed):
        found += asyncio.run(continue_at_every_token(request, seed))
    assert found["streams"] == num
    assert found["limited"] > num / 4
    assert found["taken back"] > num / 2


def test_a_limit_strikes_after_the_same_tokens_in_every_part():
    check(0, 12)


class HeldExecutor(Executor):
    """Holds all work until `run`."""

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] = []

    def submit(self, fn, /, *args, **kwargs):
        future: Future[object] = Future()
        self._held.append(lambda: future.set_result(fn(*args, **kwargs)))
        return future

    def run(self) -> int:
        """Run what is held; returns how much it was."""
        held, self._held = self._held, []
        for each in held:
            each()
        return len(held)


async def test_others_go_on_while_a_grammar_is_matched_anew():
    request = make(["ab"], prompt=[0], regex="(ab|[^a])*")
    held, grammar = HeldExecutor(), request.grammar
    assert grammar is not None
    grammar._threads = held
    target = Target(predicts=False)
    one, other = target.add(request), target.add(make([], prompt=[1], token_ids=frozenset()))
    while not other.sequence.is_finished:
        assert target.step()
    assert one.sequence.is_paused
    assert not one.sequence.is_finished
    while target.step():
        held.run()
    one.events = [event async for event in one.stream]
    assert one.answer() == tuple_of(answer(request))
    assert one.answer()[3]


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(1, NUM_BLOCKS + 1))
def test_500_limited_streams_continue_at_every_token(block):
    check(block * 10_000, NUM_STREAMS)
