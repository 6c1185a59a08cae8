"""Stream: the chunks of one generation as they arrive."""

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import grpc

from outrider.base_stream import BaseStream
from outrider.errors import OutriderError, as_error
from outrider.generation import Generation
from outrider.samples import Samples
from outrider.servers.channel import Metadata
from outrider.servers.pool import Pool
from outrider.tracing.call_span import call_span
from outrider.types import Chunk
from outrider.v1.generation_pb2_grpc import GenerationServiceStub


class Stream(BaseStream[GenerationServiceStub]):
    """The chunks of one generation; made by `Client.stream`.

    Iterate over it once. The call begins with the first chunk asked for; it is cancelled when the loop is left early,
    when the `with` block ends, or by `cancel`, from any thread. A connection that breaks is taken up again unnoticed.
    Iterating raises OutriderError, with what was `received` until then.
    """

    def __init__(
        self, pool: Pool[GenerationServiceStub], generation: Generation | Samples, metadata: Metadata = ()
    ) -> None:
        self._cancelled = threading.Event()
        super().__init__(pool, generation, self._cancelled, metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[Chunk]:
        self._begin()
        with call_span("StreamGenerate") as metadata, self._under_way():
            yield from self._chunks(metadata)

    def _chunks(self, metadata: Metadata) -> Iterator[Chunk]:
        while not self._generation.is_finished:
            server, timeout = self._next_server(), self._time_left()
            request, shown = self._generation.next_request(), (*server.metadata, *self._metadata, *metadata)
            call = server.stub.StreamGenerate(request, timeout=timeout, metadata=shown)
            self._watch(call)
            pause = 0.0
            try:
                for event in call:
                    chunk = self._generation.receive(event)
                    if chunk is not None:
                        yield chunk
                self._generation.check_finished()
            except (grpc.RpcError, OutriderError) as failure:
                pause = self._pause_after(as_error(failure))
            finally:
                call.cancel()
            self._cancelled.wait(pause)
