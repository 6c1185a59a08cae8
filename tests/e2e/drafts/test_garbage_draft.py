"""A draft that does not keep to the protocol costs the client nothing."""

import asyncio

import pytest

from benchmarks.drafts.scripted_draft import Behaviour, Reply, ScriptedDraft, replying
from tests.e2e.harness import garbage_draft
from tests.e2e.harness.draft_rig import GREEDY, PATIENCE_SECONDS, SAMPLED, DraftedTarget, Service, until
from tests.e2e.harness.models import DEMO_DRAFT
from tests.harness.further import further


async def test_wrong_tokens_are_rejected(target: DraftedTarget):
    since = target.service.log_size
    async with ScriptedDraft(target.draft_address, replying(garbage_draft.wrong_tokens)):
        await target.service.logs(target.LINKED, since)
        for options in (GREEDY, SAMPLED):
            num_predicted = num_accepted = 0
            while num_predicted < 50:  # few of them are in time on a busy machine
                speculation = (await target.generate({**options, "max_tokens": 60})).speculation
                num_predicted += speculation.predicted
                num_accepted += speculation.accepted
            assert num_accepted < num_predicted / 20


async def until_more_than(num_sent: int, draft: ScriptedDraft) -> None:
    """Its answer to the last commit may come a moment after the target's to us."""
    await until(lambda: draft.num_sent > num_sent)


@pytest.mark.parametrize(
    "reply",
    [
        garbage_draft.ids_out_of_range,
        garbage_draft.stale_epochs,
        further(garbage_draft.wrong_positions),
        further(garbage_draft.unknown_sequences),
        further(garbage_draft.unasked_alternates),
        further(garbage_draft.unknown_reasons),
    ],
)
async def test_nonsense_is_dropped(target: DraftedTarget, reply: Reply):
    since = target.service.log_size
    async with ScriptedDraft(target.draft_address, replying(reply)) as draft:
        await target.service.logs(target.LINKED, since)
        linked = target.service.log_size  # what is logged before is about the draft of an earlier test
        for options in (GREEDY, SAMPLED):
            num_sent = draft.num_sent
            result = await target.generate({**options, "max_tokens": 60})
            await until_more_than(num_sent, draft)
            assert result.speculation.accepted == 0
        assert draft.num_links == 1
        assert target.UNLINKED not in target.service.log(linked)


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        further(garbage_draft.no_hello, "it does not say hello", id="no_hello"),
        further(garbage_draft.hanging_up, "it ended the stream", id="hanging_up"),
        further(
            replying(garbage_draft.empty_messages),
            "it sent a message with none of predict, released and load in it",
            id="empty_messages",
        ),
        further(replying(garbage_draft.second_hello), "it said hello a second time", id="second_hello"),
        pytest.param(
            replying(garbage_draft.half_a_message),
            "it sent bytes that are no message of the protocol",
            id="half_a_message",
        ),
        further(replying(garbage_draft.cancelled), "CANCELLED garbage", id="cancelled"),
    ],
)
async def test_a_broken_link_is_logged_and_opened_again(fresh_target: DraftedTarget, behaviour: Behaviour, told: str):
    since = fresh_target.service.log_size
    async with ScriptedDraft(fresh_target.draft_address, behaviour) as draft:
        is_over_at_once = told.startswith("CANCELLED") or behaviour is garbage_draft.no_hello
        ended = "it ended the stream" if is_over_at_once else None  # where the target was writing just then
        told_of = asyncio.create_task(fresh_target.service.logs(told, since, otherwise=ended))
        while not told_of.done():  # an answer may be whole before the link is
            for options in (GREEDY, SAMPLED):
                await fresh_target.generate({**options, "max_tokens": 60})
        await told_of
        num_links = draft.num_links
        async with asyncio.timeout(PATIENCE_SECONDS):
            while draft.num_links == num_links:  # with nothing to follow, a link may well last
                await fresh_target.generate({**GREEDY, "max_tokens": 60})


async def test_a_silent_draft_is_given_up(target: DraftedTarget):
    since = target.service.log_size
    async with ScriptedDraft(target.draft_address, garbage_draft.silence):
        await target.generate({**SAMPLED, "max_tokens": 60})
        await target.service.logs("it does not answer", since)


async def test_after_all_garbage_a_good_draft_is_used(target: DraftedTarget, tmp_path):
    draft = Service("draft", DEMO_DRAFT, tmp_path, address=target.draft_address)
    try:
        await target.start_draft(draft)
        assert (await target.generate({**SAMPLED, "max_tokens": 150})).speculation.accepted > 0
    finally:
        draft.kill()
