"""One seed, one text: by the RPC and by HTTP, with predictions right and wrong or without, and when a target dies."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outrider import Client
from tests.e2e.harness.draft_rig import Service, serving
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.checkpoints import CHAT_TEMPLATE, copy_of
from tests.harness.servers.server import wait_until
from tests.rpc.harness.draft_link import RunningDraft

PROMPT = "def read(self, path):"
SAID = [{"role": "user", "content": PROMPT}]
SAMPLED: dict[str, Any] = {"max_tokens": 120, "seed": 9, "temperature": 0.9, "ignore_eos": True}
TOLD = {"stream": True, "stream_options": {"include_usage": True}}
BODIES: dict[str, dict[str, Any]] = {"completions": {"prompt": PROMPT}, "chat/completions": {"messages": SAID}}
PROBE: dict[str, Any] = {"max_tokens": 8, "speculation": "always", "lookup": False, "ignore_eos": True}
_MOST_BEFORE = 2  # events of each stream before the target is killed


@pytest.fixture
def draft() -> Iterator[RunningDraft]:
    """The demo draft."""
    running = RunningDraft(DEMO_DRAFT)
    yield running
    running.close()


@pytest.fixture
def pair(tmp_path: Path, draft: RunningDraft) -> Iterator[list[Service]]:
    """Two demo targets, which have a chat template here, in processes of their own; both have the draft."""
    model = copy_of(DEMO_TARGET, tmp_path, "target", chat_template=CHAT_TEMPLATE)
    folders = (tmp_path / "one", tmp_path / "two")
    for folder in folders:
        folder.mkdir()
    options = ["--draft", draft.address, "--stream-capacity", "1"]
    targets = [Service("target", model, folder, *options) for folder in folders]
    with serving(targets):
        for target in targets:
            with Client(target.address) as client:
                wait_until(lambda client=client: client.generate("a", **PROBE).speculation.predicted > 0)
        yield targets


async def streamed(gateway: RunningGateway, path: str, arrived: asyncio.Queue[str], **more: Any) -> tuple[str, Any]:
    """The text of a stream and its usage; each event is put down as it arrives."""
    text, usage, lines = "", None, []
    body = {**BODIES[path], **SAMPLED, **TOLD, **more}
    async with (
        httpx2.AsyncClient(timeout=120) as client,
        client.stream("POST", f"{gateway.url}/v1/{path}", json=body) as answer,
    ):
        async for line in answer.aiter_lines():
            lines.append(line)
            if line.startswith("data:"):
                arrived.put_nowait(path)
    for event in read_events(lines):
        usage = event.data["usage"] or usage
        for choice in event.data["choices"]:
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
    return text, usage


async def both(gateway: RunningGateway, victim: Service | None = None, **more: Any) -> dict[str, tuple[str, Any]]:
    """Both APIs at once; the victim is killed in the middle of both."""
    arrived: asyncio.Queue[str] = asyncio.Queue()
    streams = [asyncio.create_task(streamed(gateway, path, arrived, **more)) for path in BODIES]
    if victim is not None:
        counts = dict.fromkeys(BODIES, 0)
        while min(counts.values()) < _MOST_BEFORE:
            counts[await arrived.get()] += 1
        if any(stream.done() for stream in streams):  # on a slow machine one may end before the other has begun
            await asyncio.gather(*streams)
            return await both(gateway, victim, **more)
        victim.kill()
    return dict(zip(BODIES, await asyncio.gather(*streams), strict=True))


async def test_predictions_and_killed_targets_change_no_byte(pair: list[Service]):
    """The draft is right, wrong, and not asked; the target that goes on had not known of the stream."""
    first, second = pair
    with Client(second.address) as client:
        alone: Any = {**SAMPLED, "speculation": "never"}
        text = client.generate(PROMPT, **alone).text
        message = client.generate(SAID, message_deltas=True, **alone).message
    assert message is not None
    expected = {"completions": text, "chat/completions": message.content}
    with RunningGateway(first.address, second.address) as gateway:
        told = await both(gateway, speculation="always")
        assert {path: one for path, (one, _) in told.items()} == expected
        for _, usage in told.values():
            details = usage["completion_tokens_details"]
            assert details["accepted_prediction_tokens"] > 0
            assert details["rejected_prediction_tokens"] > 0
        told = await both(gateway, first, speculation="always")
        assert {path: one for path, (one, _) in told.items()} == expected
        told = await both(gateway, speculation="never")
        assert {path: one for path, (one, _) in told.items()} == expected
