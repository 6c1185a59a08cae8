"""One function for both clients, for tests that hold for both."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

import outrider
from outrider import Chunk, Result
from tests.harness.servers.scripted_server import DRAWN_SEED, answer, text_of

PROMPT = "def quicksort"
WHOLE = answer(list(PROMPT.encode()), DRAWN_SEED)
Collect = Callable[..., tuple[list[Chunk], Result]]
_PERSISTENT: dict[str, Any] = {"max_backoff": 0.05, "connect_timeout": math.inf}  # whatever a machine's speed


def _ignore(_: Chunk) -> None:
    return


def collect_sync(
    *addresses: str,
    prompt: outrider.Prompt = PROMPT,
    max_retries: int = 10,
    max_lost_retries: int = 1,
    on_chunk: Callable[[Chunk], None] = _ignore,
    **options: Any,
) -> tuple[list[Chunk], Result]:
    """All chunks and the result, by `Client`."""
    chunks = []
    retries: dict[str, Any] = {"max_retries": max_retries, "max_lost_retries": max_lost_retries}
    with outrider.Client(*addresses, **_PERSISTENT, **retries) as client:
        stream = client.stream(prompt, **options)
        for chunk in stream:
            chunks.append(chunk)
            on_chunk(chunk)
        return chunks, stream.result


def collect_async(
    *addresses: str,
    prompt: outrider.Prompt = PROMPT,
    max_retries: int = 10,
    max_lost_retries: int = 1,
    on_chunk: Callable[[Chunk], None] = _ignore,
    **options: Any,
) -> tuple[list[Chunk], Result]:
    """All chunks and the result, by `AsyncClient` in an event loop of its own."""

    async def run() -> tuple[list[Chunk], Result]:
        chunks = []
        retries: dict[str, Any] = {"max_retries": max_retries, "max_lost_retries": max_lost_retries}
        async with outrider.AsyncClient(*addresses, **_PERSISTENT, **retries) as client:
            stream = client.stream(prompt, **options)
            async for chunk in stream:
                chunks.append(chunk)
                on_chunk(chunk)
            return chunks, stream.result

    return asyncio.run(run())


with_both_clients = pytest.mark.parametrize("collect", [collect_sync, collect_async], ids=["sync", "async"])


def check_whole(chunks: list[Chunk], result: Result, whole: list[int] = WHOLE) -> None:
    """The chunks are exactly the whole answer, and the result agrees with them."""
    assert [token_id for chunk in chunks for token_id in chunk.token_ids] == whole
    assert "".join(chunk.text for chunk in chunks) == text_of(whole, is_whole=True)
    assert list(result.token_ids) == whole
    assert result.text == text_of(whole, is_whole=True)
