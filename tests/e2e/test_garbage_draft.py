"""A draft that does not keep to the protocol costs the client nothing, and the target no memory."""

import asyncio
import re

import pytest

from tests.e2e import garbage_draft
from tests.e2e.draft_rig import GREEDY, PATIENCE_SECONDS, SAMPLED, DraftedTarget, Service
from tests.e2e.garbage_draft import Behaviour, GarbageDraft, Reply, replying
from tests.e2e.models import DEMO_DRAFT

_FEW_BYTES = 64 << 20


async def test_wrong_tokens_are_rejected(target: DraftedTarget):
    since = target.service.log_size
    async with GarbageDraft(target.draft_address, replying(garbage_draft.wrong_tokens)):
        await target.service.logs(target.LINKED, since)
        for options in (GREEDY, SAMPLED):
            speculation = (await target.generate({**options, "max_tokens": 300})).speculation
            assert speculation.predicted >= 50
            assert speculation.accepted < speculation.predicted / 20


@pytest.mark.parametrize(
    "reply",
    [
        garbage_draft.ids_out_of_range,
        garbage_draft.stale_epochs,
        garbage_draft.wrong_positions,
        garbage_draft.unknown_sequences,
        garbage_draft.unasked_alternates,
        garbage_draft.unknown_reasons,
        garbage_draft.flood_of_stale_runs,
    ],
)
async def test_nonsense_is_dropped(target: DraftedTarget, reply: Reply):
    since = target.service.log_size
    async with GarbageDraft(target.draft_address, replying(reply)) as draft:
        await target.service.logs(target.LINKED, since)
        linked = target.service.log_size  # what is logged before is about the draft of an earlier test
        for options in (GREEDY, SAMPLED):
            num_sent = draft.num_sent
            result = await target.generate({**options, "max_tokens": 200})
            assert draft.num_sent > num_sent
            assert result.speculation.accepted == 0
        assert draft.num_links == 1
        assert target.UNLINKED not in target.service.log(linked)


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (garbage_draft.no_hello, "it does not say hello"),
        (garbage_draft.hanging_up, "it ended the stream"),
        (replying(garbage_draft.empty_messages), "it sent None where that has no place"),
        (replying(garbage_draft.second_hello), "it sent hello where that has no place"),
        (replying(garbage_draft.half_a_message), "it ended the stream"),
        (replying(garbage_draft.cancelled), "CANCELLED garbage"),
    ],
    ids=["no_hello", "hanging_up", "empty_messages", "second_hello", "half_a_message", "cancelled"],
)
async def test_a_broken_link_is_told_and_opened_again(target: DraftedTarget, behaviour: Behaviour, told: str):
    since = target.service.log_size
    async with GarbageDraft(target.draft_address, behaviour) as draft:
        told_of = asyncio.create_task(target.service.logs(told, since))
        while not told_of.done():  # an answer may be whole before the link is
            for options in (GREEDY, SAMPLED):
                await target.generate({**options, "max_tokens": 200})
        await told_of
        num_links = draft.num_links
        async with asyncio.timeout(PATIENCE_SECONDS):
            while draft.num_links == num_links:  # with nothing to follow, a link may well last
                await target.generate({**GREEDY, "max_tokens": 50})


@pytest.mark.parametrize("reply", [garbage_draft.flood_of_stale_runs, garbage_draft.flood_of_ids_out_of_range])
async def test_a_draft_of_no_use_at_all_is_told_of_once(target: DraftedTarget, reply: Reply):
    since = target.service.log_size
    async with GarbageDraft(target.draft_address, replying(reply)):
        await target.service.logs(target.LINKED, since)
        linked = target.service.log_size
        for options in (GREEDY, SAMPLED):
            await target.generate({**options, "max_tokens": 200})
        await target.service.logs("what the draft predicts is of no use", linked)
    await target.service.logs("has sent", linked)
    log = target.service.log(linked)
    assert log.count("what the draft predicts is of no use") == 1
    counts = re.search(r"has sent (\d+) runs, (\d+) of no use, (\d+) with ids out of range", log)
    assert counts is not None
    num_runs, num_useless, num_out_of_range = map(int, counts.groups())
    assert num_useless == num_runs > 256
    assert num_out_of_range == (num_runs if reply is garbage_draft.flood_of_ids_out_of_range else 0)


async def test_a_silent_draft_is_given_up(target: DraftedTarget):
    since = target.service.log_size
    async with GarbageDraft(target.draft_address, garbage_draft.silence):
        await target.generate({**SAMPLED, "max_tokens": 200})
        await target.service.logs("it does not answer", since)


async def test_a_flood_of_predictions_is_not_kept(target: DraftedTarget):
    since = target.service.log_size
    async with GarbageDraft(target.draft_address, garbage_draft.flood_of_long_runs) as draft:
        await target.service.logs(target.LINKED, since)
        before = target.service.resident_bytes

        async def wait_for_flood() -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while draft.num_sent < 1000:
                    await asyncio.sleep(0.01)

        result = await target.generate({**GREEDY, "max_tokens": 200}, at={50: wait_for_flood})
        assert target.service.resident_bytes < before + _FEW_BYTES
        assert result.speculation.accepted == 0


async def test_after_all_garbage_a_good_draft_is_used(target: DraftedTarget, tmp_path):
    draft = Service("draft", DEMO_DRAFT, tmp_path, address=target.draft_address)
    try:
        await target.start_draft(draft)
        assert (await target.generate({**SAMPLED, "max_tokens": 300})).speculation.accepted > 0
    finally:
        draft.kill()
