"""DraftLink: the messages for a target, and that sending them ends."""

import asyncio

from services.draft.link import DraftLink, Quotas
from services.draft_protocol.messages import DraftMessage, Release, ReleaseReason


def new_link() -> DraftLink:
    return DraftLink(Quotas(max_sequences=1, max_cached_tokens=1), capacity=10)


async def batches_of(link: DraftLink) -> list[list[DraftMessage]]:
    return [batch async for batch in link.batches()]


async def test_messages_sent_together_are_one_batch():
    link = new_link()
    messages = [Release(number, ReleaseReason.REFUSED) for number in range(5)]
    for message in messages:
        link.send(message)
    asyncio.get_running_loop().call_soon(link.hang_up)
    assert await asyncio.wait_for(batches_of(link), 10) == [messages]


async def test_a_link_ends_despite_messages_sent_after_its_end():
    link = new_link()
    link.hang_up()
    link.send(Release(1, ReleaseReason.REFUSED))
    await asyncio.sleep(0)
    await asyncio.wait_for(batches_of(link), 10)
