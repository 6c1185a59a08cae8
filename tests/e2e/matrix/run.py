"""Runs one cell's streams against its server, and disturbs the server or its draft where the cell asks for it."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from outrider import AsyncClient, FingerprintParts, Result, ServerLost
from tests.e2e.matrix.cells import Cell
from tests.e2e.matrix.draft_harness import DraftHarness
from tests.e2e.matrix.server_process import ServerProcess
from tests.e2e.matrix.streams import (
    INTRUDER,
    NUM_PROMPTS,
    StreamKey,
    intruder_options,
    prompt_of,
    random_prompt,
    streams_of,
)
from tests.e2e.matrix.transcript import Transcript

_CELL_SECONDS = {"pair": 1800}
_DEFAULT_CELL_SECONDS = 600
_WARMER_TOKENS = 5  # after the prompt that it shares
_REFERENCE_SECONDS = 600
_CHANNEL = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.http2.bdp_probe", 0),  # reads little ahead of its caller, so that what is disturbed still runs
    ("grpc.http2.lookahead_bytes", 1024),
)
_GRACE = 8  # tokens that a reader takes without the draft before it waits for it, or lets it go on
_REST_EVERY = 8  # tokens: a target as tiny as ours outruns its draft unless its reader lets the draft catch up
_REST_POLLS, _POLL_SECONDS = 30, 0.01
_LEAD = 40  # tokens that an intruder has before the stream beside it begins: seven blocks, so that three are left
_PACE_POLLS = 20  # after which an intruder goes on: the stream may wait for its blocks


@dataclass(slots=True)
class Outcome:
    """The answers of a cell's streams, and the events meanwhile."""

    results: dict[StreamKey, Result] = field(default_factory=dict)
    parts: FingerprintParts | None = None
    kills_in_stream: int = 0
    draft_was_back: dict[StreamKey, int] = field(default_factory=dict)  # after so many tokens of a stream
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def samples(self) -> list[tuple[StreamKey, Result]]:
        """All answers, further samples too."""
        return [(key, one) for key, result in self.results.items() for one in (result, *result.further_samples)]


@dataclass(slots=True)
class _Fault:
    """What is to be done as soon as a stream has received so many tokens."""

    key: StreamKey
    position: int
    inject: Callable[[StreamKey], Awaitable[None]]


class CellRun:
    """One run of one cell."""

    def __init__(
        self,
        cell: Cell,
        server: ServerProcess,
        draft: DraftHarness,
        references: dict[StreamKey, Transcript],
        attempt: int,
    ) -> None:
        """`references` are those of all the cell's streams; each attempt comes at other moments."""
        self._cell = cell
        self._server = server
        self._draft = draft
        self._references = references
        self._rng = random.Random(f"{cell.name} {attempt}")
        self._salt = self._rng.randbytes(8).hex()  # of what is computed, only this run finds anything again
        self._faults = self._plan()
        self._num_received: dict[StreamKey, int] = {}
        self._num_links = 0
        self._outcome = Outcome()

    async def run(self) -> Outcome:
        """Run all streams to their end; raises OutriderError or TimeoutError if one does not get there."""
        async with asyncio.timeout(_CELL_SECONDS.get(self._cell.setup.model, _DEFAULT_CELL_SECONDS)):
            if self._cell.setup.source != "draft":
                return await self._run()
            async with self._draft.running(self._cell, self._said()):
                return await self._run()

    async def _run(self) -> Outcome:
        self._server.probe.reset()
        keys = streams_of(self._cell)
        async with connect(self._server) as client:
            self._outcome.parts = (await client.model_info()).fingerprint_parts
            if self._cell.company == "alone":
                for key in keys:
                    await self._run_alone(client, key)
            else:
                for key in keys:
                    await self._warm_up(client, key)
                await asyncio.gather(*(self._run_stream(client, key) for key in self._in_order(keys)))
        self._outcome.counts = self._server.probe.read()
        return self._outcome

    def _in_order(self, keys: list[StreamKey]) -> list[StreamKey]:
        """As they begin: where blocks are few, those that find most must come before others take it from the cache."""
        return keys[::-1] if self._cell.cache == "warm" else keys

    async def _run_alone(self, client: AsyncClient, key: StreamKey) -> None:
        async with intruder(client, key, self._pace) if self._cell.setup.blocks == "few" else nullcontext():
            await self._warm_up(client, key)
            await self._run_stream(client, key)

    async def _pace(self, key: StreamKey, num_read: int) -> None:
        """Hold an intruder back until the stream has as many more tokens, unless a stream has made way already."""
        for _ in range(_PACE_POLLS):
            is_caught_up = num_read <= _LEAD + self._num_received.get(key, 0)
            if is_caught_up or key in self._outcome.results or self._server.probe.read()["preemptions"]:
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _warm_up(self, client: AsyncClient, key: StreamKey) -> None:
        """Let another request compute what this one's prompt begins with."""
        if self._cell.cache == "warm":
            prompt = [*key.prompt_ids(), *random_prompt(key.name, _WARMER_TOKENS)]
            options: dict[str, Any] = {
                "max_tokens": 1,
                "temperature": 0.0,
                "speculation": "never",
                "cache_salt": self._salt,
            }
            await client.generate(prompt, request_id=f"{INTRUDER}/{key.name}", **options)

    async def _run_stream(self, client: AsyncClient, key: StreamKey) -> None:
        """A call that had not started when its server was killed is made anew: we know that it was not at fault."""
        while key not in self._outcome.results:
            with suppress(ServerLost):
                await self._read_stream(client, key)

    async def _read_stream(self, client: AsyncClient, key: StreamKey) -> None:
        self._num_received[key] = 0
        async with client.stream(key.prompt_ids(), **self._options(key)) as stream:
            async for chunk in stream:
                if chunk.sample:
                    continue
                self._num_received[key] += len(chunk.token_ids)
                await self._inject_due(key)
                if self._num_received[key] % _REST_EVERY < len(chunk.token_ids):
                    await self._rest()
            self._outcome.results[key] = stream.result

    def _options(self, key: StreamKey) -> dict[str, Any]:
        kind = self._cell.predictions
        options = {**key.options(), "request_id": f"{key.name}/{kind}", "cache_salt": self._salt}
        if key.setting == "stopped":
            options["stop"] = self._references[key].stop
        if key.setting == "banned":
            options["banned_strings"] = {banned for _, banned, *_ in self._references[key].suppressed}
        if kind == "none":
            return {**options, "speculation": "never"}
        return {**options, "speculation": "always", "num_predictions": 1 + key.prompt % NUM_PROMPTS}

    def _said(self) -> dict[int, set[int]]:
        """The token ids of the streams at each position."""
        said: dict[int, set[int]] = defaultdict(set)
        for key, reference in self._references.items():
            for sample in reference.samples:
                for position, token_id in enumerate(sample.token_ids, start=len(key.prompt_ids())):
                    said[position].add(token_id)
        return said

    def _plan(self) -> list[_Fault]:
        """The server is killed in two of the streams; its draft is hit in two that run alone, or in one of many."""
        names = sorted(self._references, key=lambda key: key.name)
        if self._cell.fate == "killed":
            return [_Fault(key, self._position(key, 3 / 4), self._kill_server) for key in self._rng.sample(names, 2)]
        faults = {"killed": (self._kill_draft, self._await_draft), "paused": (self._pause_draft, self._resume_draft)}
        if self._cell.predictions not in faults:
            return []
        first, second = faults[self._cell.predictions]
        keys = self._rng.sample(names, 2 if self._cell.company == "alone" else 1)
        early = {key: self._position(key, 1 / 3) for key in keys}
        return [
            fault
            for key, position in early.items()
            for fault in (_Fault(key, position, first), _Fault(key, position + _GRACE, second))
        ]

    def _position(self, key: StreamKey, latest: float) -> int:
        """A random position within this share of a stream from its beginning."""
        return self._rng.randrange(1, max(2, int(len(self._references[key].token_ids) * latest)))

    async def _inject_due(self, key: StreamKey) -> None:
        while due := [
            fault for fault in self._faults if fault.key == key and self._num_received[key] >= fault.position
        ]:
            self._faults.remove(due[0])
            await due[0].inject(key)

    async def _rest(self) -> None:
        """Read no further until the draft has predicted something that the target does not have yet, or for a while."""
        if self._cell.setup.source != "draft" or self._cell.predictions == "absent":
            return
        answers_once = self._cell.predictions == "garbage"  # each commit
        name = "fresh_runs" if answers_once else "useful_runs"
        num_runs = 0 if answers_once else self._server.probe.read()[name]
        for _ in range(_REST_POLLS):
            await asyncio.sleep(_POLL_SECONDS)
            if self._server.probe.read()[name] > num_runs:
                return

    async def _kill_server(self, key: StreamKey) -> None:
        self._server.kill_and_start_again()
        self._outcome.kills_in_stream += self._num_received[key] < len(self._references[key].token_ids)

    async def _kill_draft(self, key: StreamKey) -> None:
        self._num_links = self._draft.kill_and_start_again()

    async def _await_draft(self, key: StreamKey) -> None:
        await self._draft.linked(after=self._num_links)
        self._outcome.draft_was_back[key] = self._num_received[key]
        await self._rest()

    async def _pause_draft(self, key: StreamKey) -> None:
        self._draft.pause()

    async def _resume_draft(self, key: StreamKey) -> None:
        self._draft.resume()
        self._outcome.draft_was_back[key] = self._num_received[key]
        await self._rest()


def connect(server: ServerProcess) -> AsyncClient:
    """A client that is in less of a hurry to give up than to try again."""
    return AsyncClient(server.address, max_retries=1200, max_backoff=0.1, channel_arguments=_CHANNEL)


@asynccontextmanager
async def intruder(
    client: AsyncClient, key: StreamKey, pace: Callable[[StreamKey, int], Awaitable[None]]
) -> AsyncIterator[None]:
    """An older stream that takes blocks while it lasts; after its lead it continues as `pace` lets it."""
    name = f"{INTRUDER}/{key.name}"
    options = {**intruder_options(), "speculation": "never", "prefix_cache": False, "request_id": name}

    async def read_on() -> None:
        async for _ in chunks:
            await pace(key, len(stream.received.token_ids))

    async with client.stream(prompt_of(key.model, -1), **options) as stream:
        chunks = aiter(stream)
        while len(stream.received.token_ids) < _LEAD:
            await anext(chunks)
        reading = asyncio.create_task(read_on())
        try:
            yield
        finally:
            await reading


async def run_reference(client: AsyncClient, key: StreamKey, **own: Any) -> Transcript:
    """The plainest run of a stream: alone, and with nothing to disturb it; `own` are options of this run."""
    options = {**key.options(), "speculation": "never", "prefix_cache": False, **own}
    async with asyncio.timeout(_REFERENCE_SECONDS):
        return Transcript.of(await client.generate(key.prompt_ids(), **options))
