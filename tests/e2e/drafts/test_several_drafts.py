"""Several drafts share a target's streams by load; when one dies another takes its streams up, and no byte changes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness.draft_rig import (
    GREEDY,
    SAMPLED,
    Action,
    DraftedTarget,
    Service,
    accepted_behind,
    assert_counts,
    until,
)
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET


@pytest.fixture
def drafts(tmp_path: Path) -> Iterator[list[Service]]:
    """Two, not started yet."""
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(Service("draft", DEMO_DRAFT, tmp_path / name))
    yield made
    for draft in made:
        draft.kill()


AHEAD = pytest.param(["--run-ahead", "8"], id="ahead")
BETWEEN_PASSES = pytest.param([], id="between-passes", marks=pytest.mark.exhaustive)


@pytest.fixture(params=[AHEAD, BETWEEN_PASSES])
def target(request: pytest.FixtureRequest, drafts: list[Service], tmp_path: Path) -> Iterator[DraftedTarget]:
    """A target that looks for both."""
    addresses = [option for draft in drafts for option in ("--draft", draft.address)]
    options = ["--stream-capacity", "8", "--no-lookup", *request.param]
    service = Service("target", DEMO_TARGET, tmp_path, *addresses, *options)
    service.start()
    try:
        asyncio.run(service.logs("serving target"))
        yield DraftedTarget(service, drafts[0].address)
    finally:
        service.kill()


async def test_streams_outlive_each_of_their_drafts(target: DraftedTarget, drafts: list[Service]):
    """Four streams share two drafts. One of these is killed while all streams run, then the other, once it is back."""
    for draft in drafts:
        await target.start_draft(draft)
    all_run, first_is_gone, second_is_gone = asyncio.Barrier(4), asyncio.Event(), asyncio.Event()

    async def meet() -> None:
        await all_run.wait()

    async def kill_first() -> None:
        await until(lambda: all(draft.num_used_blocks for draft in drafts))
        await target.kill_draft(drafts[0])
        first_is_gone.set()

    async def kill_second() -> None:
        await target.start_draft(drafts[0])
        await target.kill_draft(drafts[1])
        second_is_gone.set()

    breaks: dict[int, Action] = {40: meet, 60: kill_first, 120: kill_second}
    waits: dict[int, Action] = {40: meet, 80: _until_set(first_is_gone), 140: _until_set(second_is_gone)}
    options = [{**kind, "max_tokens": 240} for kind in (GREEDY, SAMPLED)] * 2
    results = await asyncio.gather(
        *(target.generate(each, at=at) for each, at in zip(options, [breaks, waits, waits, waits], strict=True))
    )
    assert_counts(*results)
    for each in results:
        assert accepted_behind(each, 180) > 0
        assert each.speculation.draft_losses == each.speculation.draft_returns >= 1


def _until_set(event: asyncio.Event) -> Action:
    async def wait() -> None:
        await event.wait()

    return wait
