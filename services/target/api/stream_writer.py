"""StreamWriter: writes the messages of one stream, unless its reader takes nothing for too long."""

import asyncio
from types import TracebackType
from typing import Any, Self

from google.protobuf.message import Message
from grpc import aio

from outrider.servers.channel import ADMITTED
from services.service.errors import ReaderStalledError

Context = aio.ServicerContext[Any, Any]


class StreamWriter:
    """A context that ends only when the call's status can be sent.

    gRPC sends the headers with the first message. If that message is still on its way when the stream ends, its write
    goes on and is awaited: gRPC would refuse to send the status, which then needs the headers too.
    """

    def __init__(self, context: Context, reader_timeout: float) -> None:
        self._context, self._timeout = context, reader_timeout
        self._first: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the first message as long as the connection lasts, and raise its error if it could not be sent."""
        if isinstance(error, ReaderStalledError) and self._first is not None:
            await self._first

    async def write_headers(self) -> None:
        """Tell the caller that its request is admitted: the first message may be long in coming."""
        await self._context.send_initial_metadata(((ADMITTED, "1"),))

    async def write(self, message: Message) -> None:
        """Write a message once the reader has taken those before it; raises ReaderStalledError if it does not."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._write(message)
        except TimeoutError as error:
            raise ReaderStalledError(self._timeout) from error

    async def _write(self, message: Message) -> None:
        if self._first is None:
            self._first = asyncio.ensure_future(self._context.write(message))
            self._first.add_done_callback(_take_error)
            await asyncio.shield(self._first)
        else:
            await self._context.write(message)


def _take_error(write: asyncio.Future[None]) -> None:
    """Take the error of a write that goes on after its call was cancelled: the log would have it as unexpected."""
    if not write.cancelled():
        write.exception()
