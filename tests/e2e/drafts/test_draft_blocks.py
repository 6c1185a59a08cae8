"""A cancelled call or a fault leaves no KV block in use, in the target or in the draft."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outrider import AsyncClient, DeadlineExceeded
from outrider.types import FinishReason
from tests.e2e.harness.draft_rig import (
    PATIENCE_SECONDS,
    PROMPT,
    SAMPLED,
    DraftedTarget,
    MakeDraft,
    Options,
    Service,
    until,
)
from tests.e2e.harness.models import DEMO_TARGET
from tests.harness.further import further

# With its records it is many times what gRPC lets a server send ahead of its reader.
ENDLESS: Options = {
    **SAMPLED,
    "max_tokens": 1900,
    "speculation": "always",
    "num_predictions": 6,
    "logprobs": True,
    "top_candidates": 20,
}
READER_SECONDS = 0.1  # for each chunk


@pytest.fixture
def draft(make_draft: MakeDraft) -> Service:
    """Not started yet; where the target looks for it."""
    return make_draft()


@asynccontextmanager
async def streaming(target: DraftedTarget, draft: Service, *, may_fail: bool = False) -> AsyncIterator[AsyncClient]:
    """Three readers of streams that both services hold blocks of, each of one stream after the other.

    So services may be killed and started as slowly as they like. No stream fails, unless the target or the client goes
    away.
    """

    async def read() -> None:
        while True:
            async with client.stream(PROMPT, **ENDLESS) as stream:
                async for _ in stream:
                    await asyncio.sleep(READER_SECONDS)

    async with target.connect() as client:
        readers = [asyncio.create_task(read()) for _ in range(3)]
        try:
            await until(lambda: target.service.num_used_blocks > 3 and draft.num_used_blocks > 3)
            yield client
        finally:
            for reader in readers:
                reader.cancel()
            ends = await asyncio.gather(*readers, return_exceptions=True)
    assert may_fail or not [end for end in ends if isinstance(end, Exception)]


async def all_free(*services: Service) -> None:
    """Closing takes a moment to get to the draft."""
    await until(lambda: not any(service.num_used_blocks for service in services))


async def test_cancelled_streams(target: DraftedTarget, draft: Service):
    await target.start_draft(draft)
    async with streaming(target, draft):
        pass
    await all_free(target.service, draft)


@pytest.mark.exhaustive
async def test_a_client_that_goes_away(target: DraftedTarget, draft: Service):
    await target.start_draft(draft)
    async with streaming(target, draft, may_fail=True) as client:
        await client.close()
        await all_free(target.service, draft)


@pytest.mark.parametrize("num_tokens", [further(1), 10, further(100)])
async def test_a_stream_left_at_any_time(target: DraftedTarget, draft: Service, num_tokens: int):
    await target.start_draft(draft)
    async with target.connect() as client, client.stream(PROMPT, **ENDLESS) as stream:
        async for _ in stream:
            if len(stream.received.token_ids) >= num_tokens:
                await until(lambda: draft.num_used_blocks > 0)
                break  # which ends the call
    await all_free(target.service, draft)


async def test_a_deadline(target: DraftedTarget, draft: Service):
    """Whether the server's own end arrives before the client's deadline is a race that both may win."""
    await target.start_draft(draft)
    held, seconds = 0, 2.0
    while not held:  # a slow machine needs more time to come so far
        assert seconds < PATIENCE_SECONDS
        async with target.connect() as client, client.stream(PROMPT, timeout=seconds, **ENDLESS) as stream:
            try:
                async for _ in stream:
                    held = max(held, draft.num_used_blocks)
                    await asyncio.sleep(0.05)  # so slow a reader that the deadline comes first
                assert stream.result.finish_reason is FinishReason.DEADLINE
            except DeadlineExceeded:
                pass
        seconds *= 2
    await all_free(target.service, draft)


@pytest.mark.exhaustive
async def test_a_whole_answer(target: DraftedTarget, draft: Service):
    await target.start_draft(draft)
    result = await target.generate({**SAMPLED, "max_tokens": 200})
    assert result.speculation.accepted > 0
    await all_free(target.service, draft)


async def test_a_link_that_is_closed(target: DraftedTarget, make_draft: MakeDraft):
    draft = make_draft(near=False)
    async with target.linked_through_proxy(draft) as proxy, streaming(target, draft):
        await proxy.close()
        await all_free(draft)
        await until(lambda: target.service.num_used_blocks > 0)
    await all_free(target.service)


async def test_a_draft_that_is_killed(target: DraftedTarget, draft: Service):
    await target.start_draft(draft)
    async with streaming(target, draft):
        await target.kill_draft(draft)
        await until(lambda: target.service.num_used_blocks > 0)
        await target.start_draft(draft)
        await until(lambda: draft.num_used_blocks > 3)
    await all_free(target.service, draft)


async def test_a_target_that_is_killed(make_draft: MakeDraft, tmp_path: Path):
    draft = make_draft(near=False)
    service = Service("target", DEMO_TARGET, tmp_path, "--draft", draft.address)
    target = DraftedTarget(service, draft.address)
    draft.start()
    try:
        service.start()
        await service.logs(target.LINKED)
        async with streaming(target, draft, may_fail=True):
            service.kill()
            await all_free(draft)
    finally:
        service.kill()
