"""ForwardedCall: a call of a client that is connected to a front, as its handler sees it."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import grpc
from grpc import aio

from services.target.fronts.messages import Begin, End, Headers, Metadata, Read, Send, ToFront


class ForwardedCall:
    """Has the methods of aio.ServicerContext that our handlers use."""

    def __init__(self, begun: Begin, send: Callable[[ToFront], None]) -> None:
        """`send` sends a message to the front."""
        self.method = begun.method
        self.serialize: Callable[[Any], bytes] = bytes
        """Makes a response's bytes."""
        self._begun, self._send = begun, send
        self._read: asyncio.Future[bytes | None] | None = None
        self._written: asyncio.Future[None] | None = None
        self._trailers: Metadata = ()
        self._code = grpc.StatusCode.OK
        self.has_ended = False

    def invocation_metadata(self) -> Metadata:
        """What the client sent before its request."""
        return self._begun.metadata

    def peer(self) -> str:
        """The client's address."""
        return self._begun.peer

    def peer_identities(self) -> Iterable[bytes]:
        """The names in the client's certificate; none without one."""
        return self._begun.identities

    def time_remaining(self) -> float | None:
        """Seconds until the deadline, if there is one."""
        deadline = self._begun.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def code(self) -> grpc.StatusCode:
        """The code that it has ended with."""
        return self._code

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """Send these with the status."""
        self._trailers = tuple(metadata)

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        """Send these before the first response."""
        self._send(Headers(self._begun.call, tuple(metadata)))

    async def read(self) -> Any:  # noqa: ANN401 - bytes, or grpc's mark
        """Return the next request's bytes, or aio.EOF."""
        self._read = asyncio.get_running_loop().create_future()
        self._send(Read(self._begun.call))
        request = await self._read
        return aio.EOF if request is None else request

    async def write(self, response: Any) -> None:  # noqa: ANN401 - a message of the method
        """Send a response; returns once the connection has room for another."""
        self._written = asyncio.get_running_loop().create_future()
        self._send(Send(self._begun.call, self.serialize(response)))
        await self._written

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> NoReturn:
        """End the call with an error; raises AbortError."""
        self._code = code
        self._end(details, tuple(trailing_metadata))
        raise aio.AbortError("the call was aborted")

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK) -> None:
        """End the call with a status without details."""
        self._code = code
        self._end("", self._trailers)

    def drop(self) -> None:
        """Wait for the front no longer: the client has left, or the front has."""
        for waiting in (self._read, self._written):
            if waiting is not None:
                waiting.cancel()

    def take_request(self, request: bytes | None) -> None:
        """Take the answer to `read`."""
        if self._read is not None and not self._read.done():
            self._read.set_result(request)

    def take_sent(self) -> None:
        """Take note that the last response is sent."""
        if self._written is not None and not self._written.done():
            self._written.set_result(None)

    def _end(self, details: str, trailers: Metadata) -> None:
        self.has_ended = True
        self._send(End(self._begun.call, self._code.name, details, trailers))
