"""Watcher: what a server's load does to its health, its refusals, its running streams and its memory."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.v1 import generation_pb2
from tests.load.crowd import METHOD, small_request

_HEALTH_SECONDS = 0.02  # between two questions, whether the one before is answered or not
_REFUSAL_SECONDS = 0.05
_MEMORY_SECONDS = 0.5
_STREAM_TOKENS = 1900
_ALONE = [("grpc.use_local_subchannel_pool", 1)]
Stream: TypeAlias = "aio.UnaryStreamMultiCallable[Any, Any]"


class Watcher:
    """In a process of its own, so that it is not delayed by what loads the server; seconds, and bytes.

    It asks at fixed times: an answer that is late makes no later question wait, and counts from when it was due.
    """

    def __init__(self, address: str, resident_bytes: Callable[[], int]) -> None:
        self._address, self._resident_bytes = address, resident_bytes
        self.health: list[float] = []
        self.refusals: list[float] = []
        self.gaps: list[float] = []
        self.steps: list[float] = []
        """For each of the gaps, how long it is beside what a token of its stream took."""
        self.memory = [resident_bytes()]
        self._is_over = asyncio.Event()

    def begin(self) -> None:
        """Count from now on."""
        for seen in (self.health, self.refusals, self.gaps, self.steps):
            seen.clear()

    async def watch(self, until: asyncio.Future[bytes]) -> None:
        """Until that is done."""
        write = generation_pb2.StreamGenerateRequest.SerializeToString
        read = generation_pb2.StreamGenerateResponse.FromString
        async with aio.insecure_channel(self._address, _ALONE) as channel:
            health, stream = health_pb2_grpc.HealthStub(channel), channel.unary_stream(METHOD, write, read)
            watching = [
                asyncio.ensure_future(each)
                for each in (
                    self._at_fixed_times(_HEALTH_SECONDS, lambda due: self._ask_health(health, due)),
                    self._at_fixed_times(_REFUSAL_SECONDS, lambda due: self._be_refused(stream, due)),
                    self._read(stream),
                    self._weigh(),
                )
            ]
            await asyncio.wait([until])
            self._is_over.set()
            await asyncio.gather(*watching)

    async def _at_fixed_times(self, interval: float, ask: Callable[[float], Awaitable[None]]) -> None:
        due, asking = time.monotonic(), set()
        while not self._is_over.is_set():
            asking.add(asyncio.ensure_future(ask(due)))
            due += interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            asking -= {each for each in asking if each.done() and not each.exception()}
        await asyncio.gather(*asking)

    async def _ask_health(self, stub: health_pb2_grpc.HealthStub, due: float) -> None:
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        self.health.append(time.monotonic() - due)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    async def _be_refused(self, stream: Stream, due: float) -> None:
        """Ask for little, on a connection that is there; what is not refused is cancelled, and not counted."""
        call = stream(small_request(1))
        try:
            await call.read()
            call.cancel()
        except aio.AioRpcError as error:
            if error.code() is not StatusCode.RESOURCE_EXHAUSTED:
                raise
            self.refusals.append(time.monotonic() - due)

    async def _read(self, stream: Stream) -> None:
        """One stream after the other, and the time between its messages."""
        while not self._is_over.is_set():
            call = stream(small_request(_STREAM_TOKENS))
            try:
                await self._read_one(call)
            except aio.AioRpcError as error:
                if error.code() is not StatusCode.RESOURCE_EXHAUSTED:
                    raise
                await asyncio.sleep(0.2)

    async def _read_one(self, call: "aio.UnaryStreamCall[Any, Any]") -> None:
        first = before = 0.0
        num_tokens, gaps = 0, []
        async for event in call:
            if self._is_over.is_set():
                call.cancel()
                break
            if event.HasField("chunk"):
                now = time.monotonic()
                gaps += [now - before] if before else []
                num_tokens += len(event.chunk.token_ids) if before else 0
                first, before = first or now, now
        if num_tokens:
            self.gaps += gaps
            self.steps += [gap * num_tokens / (before - first) for gap in gaps]

    async def _weigh(self) -> None:
        while not self._is_over.is_set():
            self.memory.append(self._resident_bytes())
            await asyncio.sleep(_MEMORY_SECONDS)
