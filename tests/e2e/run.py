"""Runs one cell's streams against its server, and kills the server where the cell says so."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from outrider import AsyncClient, Chunk, Result
from tests.e2e.cells import Cell
from tests.e2e.server_process import ServerProcess
from tests.e2e.streams import INTRUDER, NUM_PROMPTS, StreamKey, intruder_options, prompt_of, streams_of
from tests.e2e.transcript import Transcript

_CELL_SECONDS = 180
_REFERENCE_SECONDS = 60
_KILLS = 2
_CHANNEL = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 100))


@dataclass(slots=True)
class Outcome:
    """What the streams of a cell gave, and what went on meanwhile."""

    results: dict[StreamKey, Result] = field(default_factory=dict)
    device: str = ""
    kills_in_stream: int = 0
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Kill:
    """When the server is to be killed: as soon as a stream has received so many tokens."""

    key: StreamKey
    position: int
    is_done: bool = False


class CellRun:
    """One run of one cell."""

    def __init__(self, cell: Cell, server: ServerProcess, references: dict[StreamKey, Transcript]) -> None:
        """`references` are those of all the cell's streams."""
        self._cell = cell
        self._server = server
        self._references = references
        self._kills = _plan_kills(cell, references)
        self._outcome = Outcome()

    async def run(self) -> Outcome:
        """Run all streams to their end; raises OutriderError or TimeoutError if one does not get there."""
        self._server.probe.reset()
        keys = streams_of(self._cell)
        async with connect(self._server) as client, asyncio.timeout(_CELL_SECONDS):
            self._outcome.device = (await client.model_info()).fingerprint_parts.device
            if self._cell.company == "alone":
                for key in keys:
                    await self._run_alone(client, key)
            else:
                await asyncio.gather(*(self._run_stream(client, key) for key in keys))
        self._outcome.counts = self._server.probe.read()
        return self._outcome

    async def _run_alone(self, client: AsyncClient, key: StreamKey) -> None:
        if self._cell.setup.blocks == "plenty":
            await self._run_stream(client, key)
            return
        async with intruder(client, key):
            await self._run_stream(client, key)

    async def _run_stream(self, client: AsyncClient, key: StreamKey) -> None:
        async with client.stream(key.prompt_ids(), **self._options(key)) as stream:
            num_received = 0
            async for chunk in stream:
                num_received += len(chunk.token_ids)
                self._kill_at(key, num_received)
            self._outcome.results[key] = stream.result

    def _options(self, key: StreamKey) -> dict[str, object]:
        kind = self._cell.predictions
        options = {**key.options(), "request_id": f"{key.name}/{kind}"}
        if key.setting == "stopped":
            options["stop"] = self._references[key].stop
        if kind == "none":
            return {**options, "speculation": "never"}
        return {**options, "speculation": "always", "num_predictions": 1 + key.prompt % NUM_PROMPTS}

    def _kill_at(self, key: StreamKey, num_received: int) -> None:
        for kill in self._kills:
            if kill.key == key and not kill.is_done and num_received >= kill.position:
                kill.is_done = True
                self._server.kill_and_start_again()
                self._outcome.kills_in_stream += num_received < len(self._references[key].token_ids)


def _plan_kills(cell: Cell, references: dict[StreamKey, Transcript]) -> list[_Kill]:
    if cell.fate != "killed":
        return []
    chance = random.Random(cell.name)
    keys = chance.sample(sorted(references, key=lambda key: key.name), _KILLS)
    return [_Kill(key, chance.randrange(1, max(2, len(references[key].token_ids) * 3 // 4))) for key in keys]


def connect(server: ServerProcess) -> AsyncClient:
    """A client that is in less of a hurry to give up than to try again."""
    return AsyncClient(server.address, max_retries=400, max_backoff=0.1, channel_arguments=_CHANNEL)


@asynccontextmanager
async def intruder(client: AsyncClient, key: StreamKey) -> AsyncIterator[None]:
    """An older stream that takes blocks while it lasts."""
    options = {**intruder_options(), "request_id": f"{INTRUDER}/{key.name}"}
    async with client.stream(prompt_of(key.model, -1), **options) as stream:
        chunks = aiter(stream)
        await anext(chunks)
        reading = asyncio.create_task(_drain(chunks))
        try:
            yield
        finally:
            await reading


async def _drain(chunks: AsyncIterator[Chunk]) -> None:
    async for _ in chunks:
        pass


async def run_reference(client: AsyncClient, key: StreamKey, stop: str | None = None) -> Transcript:
    """The plainest run of a stream: alone, and with nothing to disturb it."""
    options = {**key.options(), "speculation": "never", "stop": stop}
    async with asyncio.timeout(_REFERENCE_SECONDS):
        return Transcript.of(await client.generate(key.prompt_ids(), **options))
