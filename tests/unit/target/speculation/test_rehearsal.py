"""Rehearsals: a draft is measured while the server is idle, and requests go before it."""

import asyncio

from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.rehearsal import Rehearsals, rehearsal_request
from tests.unit.sequences import byte_tokenizer


class Stage:
    """Where rehearsals take place, unless something else does."""

    def __init__(self, *, is_busy: bool = False) -> None:
        self.is_busy = is_busy
        self.num_tries = self.num_done = 0

    async def rehearse(self) -> bool:
        self.num_tries += 1
        self.num_done += not self.is_busy
        return not self.is_busy


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_draft_that_comes_is_tried_once():
    stage, rehearsals = Stage(), Rehearsals(PolicyConfig())
    rehearsals.draft_came(stage.rehearse)
    await turns(8)
    rehearsals.stop()
    assert (stage.num_tries, stage.num_done) == (1, 1)


async def test_a_rehearsal_is_retried_while_the_engine_is_busy():
    stage, rehearsals = Stage(is_busy=True), Rehearsals(PolicyConfig(draft_wait=0.0))
    rehearsals.draft_came(stage.rehearse)
    await turns(8)
    assert stage.num_tries > 1
    stage.is_busy = False
    await turns(8)
    rehearsals.stop()
    assert stage.num_done == 1


async def test_rehearsals_repeat_after_each_pause_in_turn():
    stage, rehearsals = Stage(), Rehearsals(PolicyConfig(rehearse_after=(0.0, 0.0, 0.0, 600.0)))
    rehearsals.draft_came(stage.rehearse)
    await turns(16)
    rehearsals.stop()
    assert stage.num_done == 3


async def test_a_draft_that_comes_and_goes_has_to_wait():
    stage, rehearsals = Stage(), Rehearsals(PolicyConfig())
    for _ in range(5):
        rehearsals.draft_came(stage.rehearse)
        await turns(4)
    rehearsals.stop()
    assert stage.num_done == 1


async def test_waiting_for_the_first_draft_ends_after_its_rehearsal():
    stage, rehearsals = Stage(is_busy=True), Rehearsals(PolicyConfig(draft_wait=60.0, first_wait=60.0))
    await rehearsals.first()  # no draft has come
    rehearsals.draft_came(stage.rehearse)
    await rehearsals.first()
    rehearsals.stop()
    assert stage.num_tries == 1


def test_the_rehearsal_fits_a_short_context_and_is_not_cached():
    request = rehearsal_request(byte_tokenizer(), PolicyConfig(), seed=3, context_length=64)
    assert 0 < len(request.prompt) <= 32
    assert not request.cache.prefix
    assert request.sampling.seed == 3, "each goes on in a way of its own"
