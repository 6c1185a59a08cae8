"""BaseStream: what the streams of both gRPC APIs share, which is all but the waiting."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import grpc
import grpc.aio

from outrider.errors import Cancelled, OutriderError
from outrider.generation import Generation
from outrider.samples import Samples
from outrider.servers.channel import Metadata
from outrider.servers.pool import Pool, Server
from outrider.types import Prefill, Received, Result, Started

Stub = TypeVar("Stub")


class BaseStream(Generic[Stub]):
    """One generation, the servers that may continue it, and whether it is still wanted."""

    def __init__(
        self,
        pool: Pool[Stub],
        generation: Generation | Samples,
        cancel_requested: threading.Event | asyncio.Event,
        metadata: Metadata,
    ) -> None:
        self._pool = pool
        self._generation = generation
        self._metadata = metadata
        self._call: grpc.RpcContext | grpc.aio.RpcContext | None = None
        self._is_begun = False
        self._cancel_requested = cancel_requested

    @property
    def started(self) -> Started | None:
        """How the generation started, once it has."""
        return self._generation.started

    @property
    def prefill(self) -> Prefill | None:
        """The last progress report on the prompt, if there was one."""
        return self._generation.prefill

    @property
    def received(self) -> Received:
        """All that has arrived so far."""
        return self._generation.received()

    @property
    def result(self) -> Result:
        """The whole generation; raises RuntimeError before it has ended."""
        return self._generation.result()

    def cancel(self) -> None:
        """End the call; a caller that waits for the next chunk gets Cancelled."""
        self._cancel_requested.set()
        if self._call is not None:
            self._call.cancel()

    def _begin(self) -> None:
        if self._is_begun:
            raise RuntimeError("a stream can be iterated over once")
        self._is_begun = True

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """The client's end cancels what is done here, and its errors have what was received until then."""
        self._pool.cancels.add(self.cancel)
        try:
            yield
        except OutriderError as error:
            error.received = self.received
            raise
        finally:
            self._pool.cancels.discard(self.cancel)

    def _is_cancelled(self) -> bool:
        return self._cancel_requested.is_set() or self._pool.is_closed

    def _cancellation(self) -> Cancelled:
        return Cancelled("the stream was cancelled")

    def _next_server(self) -> Server[Stub]:
        return self._pool.servers[self._generation.address]

    def _time_left(self) -> float | None:
        """Seconds until the deadline, if there is one; raises DeadlineExceeded after it, Cancelled after `cancel`."""
        if self._is_cancelled():
            raise self._cancellation()
        return self._generation.time_left()

    def _watch(self, call: grpc.RpcContext | grpc.aio.RpcContext) -> None:
        self._call = call
        if self._cancel_requested.is_set():  # by another thread, which did not see this call yet
            call.cancel()

    def _pause_after(self, error: OutriderError) -> float:
        """Seconds to wait before the next call; raises the error if there is to be none."""
        if self._generation.is_finished:
            return 0.0  # all of it had arrived before the connection broke
        if self._is_cancelled():
            raise self._cancellation()
        pause = self._generation.failed(error)
        self._pool.preferred = self._generation.address
        return pause
