"""AsyncStream: the chunks of one generation as they arrive, for asyncio."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Self

import grpc

from outrider.base_stream import BaseStream
from outrider.errors import OutriderError, as_error
from outrider.generation import Generation
from outrider.hedge import Call, Event, Racer, hedged
from outrider.samples import Samples
from outrider.servers.channel import ADMITTED, Metadata
from outrider.servers.pool import Pool, Server
from outrider.tracing.call_span import call_span
from outrider.types import Chunk

if TYPE_CHECKING:
    from outrider.v1.generation_pb2_grpc import GenerationServiceAsyncStub


class AsyncStream(BaseStream["GenerationServiceAsyncStub"]):
    """The chunks of one generation; made by `AsyncClient.stream`.

    Iterate over it once. The call begins with the first chunk asked for; it is cancelled when the loop is left early,
    when the `async with` block ends, when the task is cancelled, or by `cancel`. A connection that breaks is taken up
    again unnoticed. Iterating raises OutriderError, with what was `received` until then.
    """

    def __init__(
        self,
        pool: "Pool[GenerationServiceAsyncStub]",
        generation: Generation | Samples,
        metadata: Metadata = (),
        traceparent: str | None = None,
        hedge_after: float | None = None,
    ) -> None:
        self._traceparent = traceparent
        self._single = generation if isinstance(generation, Generation) else None
        self._hedge_after = hedge_after
        self._cancelled = asyncio.Event()
        self._admission = asyncio.Event()
        super().__init__(pool, generation, self._cancelled, metadata)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()

    async def admitted(self) -> None:
        """Wait until a server has admitted the request, while another task iterates over the stream.

        Servers that are older than this client do not tell it.
        """
        await self._admission.wait()

    async def __aiter__(self) -> AsyncGenerator[Chunk, None]:
        self._begin()
        with call_span("StreamGenerate", self._traceparent) as metadata, self._under_way():
            async with aclosing(self._chunks(metadata)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _chunks(self, metadata: Metadata) -> AsyncGenerator[Chunk, None]:
        while not self._generation.is_finished:
            call = self._begin_call(self._next_server(), metadata)
            self._watch(call)
            pause = 0.0
            try:
                async with aclosing(self._events(call, metadata)) as events:
                    async for event in events:
                        chunk = self._generation.receive(event)
                        if chunk is not None:
                            yield chunk
                self._generation.check_finished()
            except (grpc.RpcError, OutriderError) as failure:
                pause = self._pause_after(as_error(failure))
            except asyncio.CancelledError:  # gRPC raises it for a task that is cancelled and for a call that is
                if _is_task_cancelled() or not self._is_cancelled():
                    raise
                raise self._cancellation() from None
            finally:
                call.cancel()
            await self._wait(pause)

    def _begin_call(self, server: "Server[GenerationServiceAsyncStub]", metadata: Metadata) -> Call:
        shown = (*server.metadata, *self._metadata, *metadata)
        return server.stub.StreamGenerate(self._generation.next_request(), timeout=self._time_left(), metadata=shown)

    async def _events(self, call: Call, metadata: Metadata) -> AsyncGenerator[Event, None]:
        """Yield the events of a call, or of another one that is ahead of it."""
        count, single = len(self._pool.servers), self._single
        if self._hedge_after is None or count == 1 or single is None:
            await self._note_admission(call)
            async for event in call:
                yield event
            return

        def begin_rival() -> Racer:
            address = (single.address + 1) % count
            return Racer(self._begin_call(self._pool.servers[address], metadata), address, self._note_admission)

        def take_over(rival: Racer) -> bool:
            if is_same := single.starts_alike(rival.held):
                single.move_to(rival.address)
                self._watch(rival.call)
            return is_same

        leader = Racer(call, single.address, self._note_admission)
        async with aclosing(hedged(leader, begin_rival, self._hedge_after, take_over)) as events:
            async for event in events:
                yield event

    async def _note_admission(self, call: Call) -> None:
        if ADMITTED in dict(await call.initial_metadata()):
            self._admission.set()

    async def _wait(self, pause: float) -> None:
        """Sleep, but no longer than until the stream is cancelled."""
        try:
            await asyncio.wait_for(self._cancelled.wait(), pause)
        except TimeoutError:
            return


def _is_task_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
