"""Front: a process that has connections of clients; it forwards their calls to the service, and ends with it."""

import asyncio
import gc
import logging
import os
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from grpc import aio

from services.engine.config import ConfigError
from services.engine.decoder.loading_progress import LoadingProgress
from services.service.access.tokens import read_callers
from services.service.life.log_level import set_level
from services.service.rpc_server import RpcServer
from services.service.service_process import prepare_part
from services.target.fronts.message_link import MessageLink
from services.target.fronts.messages import (
    Begin,
    Drop,
    End,
    Ended,
    Headers,
    Level,
    Listening,
    Order,
    Read,
    Received,
    Send,
    Sent,
    Serving,
    Shown,
    Stop,
    ToFront,
    to_front,
)
from services.telemetry.log_lines import configure_logging

logger = logging.getLogger(__name__)

MOST_SECONDS = 10.0  # without a message from the service or the front, after which the other one takes it to hang
Context = aio.ServicerContext[Any, Any]


class Front:
    """Serves what the service's first message says, until it says to stop."""

    def __init__(self, end: socket.socket) -> None:
        self._link = MessageLink(end, to_front, self._take, lambda: os._exit(0))  # its calls are for nobody
        self._server: RpcServer | None = None
        self._progress = LoadingProgress(is_logged=False)
        self._silence: asyncio.TimerHandle | None = None
        self._numbers = count(1)
        self._calls: dict[int, _Call] = {}
        self._has_stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()  # which the event loop itself does not keep

    async def run(self) -> None:
        """Return once the service wants it."""
        await self._link.open()
        await self._has_stopped.wait()
        self._link.close()

    def _take(self, message: ToFront) -> None:
        match message:
            case Read() | Headers() | Send() | End():
                if (call := self._calls.get(message.call)) is not None:  # else its client has left
                    call.take(message)
            case Order():
                self._begin(self._listen(message))
            case Serving():
                self._show(message)
            case Level():
                set_level(message.name)
            case Stop():
                self._begin(self._stop())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the front has failed", exc_info=error)
            os._exit(1)  # another one takes its place

    async def _listen(self, order: Order) -> None:
        configure_logging("target", order.log_format)
        set_level(order.log_level)
        for proto in order.protos:
            descriptor_pool.Default().AddSerializedFile(proto)
        try:
            self._server = RpcServer(
                order.server,
                read_callers(order.server.tokens_file),
                order.services,
                lambda rpc: self._register(rpc, order),
                self._progress,
                on_ended=lambda method, code: self._link.send(Ended(method, code)),
                shares_port=True,
            )
            await self._server.start()
        except ConfigError as error:
            self._link.send(Listening(str(error)))
        else:
            gc.freeze()
            self._link.send(Listening())

    def _register(self, rpc: aio.Server, order: Order) -> None:
        for service, names in order.methods.items():
            handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
                name: grpc.stream_stream_rpc_method_handler(partial(self._forward, f"/{service}/{name}"))
                for name in names
            }
            rpc.add_registered_method_handlers(service, handlers)

    async def _forward(self, method: str, _: object, context: Context) -> None:
        """Answer a call with what the service sends."""
        number = next(self._numbers)
        call = self._calls[number] = _Call(number, context, self._link)
        remaining = context.time_remaining()
        begin = Begin(
            number,
            method,
            tuple((key, value) for key, value in context.invocation_metadata() or ()),
            context.peer(),
            tuple(context.peer_identities() or ()),
            None if remaining is None else time.monotonic() + remaining,
        )
        self._link.send(begin)
        try:
            end = await call.answer()
        except BaseException:  # the client has left
            self._link.send(Drop(number))
            raise
        finally:
            del self._calls[number]
        await end_call(context, end)

    def _show(self, message: Serving) -> None:
        """Report this health until the next message; none at all means that the service hangs."""
        self._progress.advance(message.loaded_share)
        if self._silence is not None:
            self._silence.cancel()
        assert self._server is not None
        self._server.show(message.is_serving)
        self._silence = asyncio.get_running_loop().call_later(MOST_SECONDS, self._server.show, False)
        self._link.send(Shown())

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        self._has_stopped.set()


class _Call:
    """One call, and what the service has sent for it."""

    def __init__(self, number: int, context: Context, link: "MessageLink[ToFront]") -> None:
        self._number, self._context, self._link = number, context, link
        self._messages: asyncio.Queue[Read | Headers | Send | End] = asyncio.Queue()
        self._writing: asyncio.Timeout | None = None
        self._has_end = False

    def take(self, message: Read | Headers | Send | End) -> None:
        """Take a message; an end does not wait for a response that its reader does not take."""
        self._messages.put_nowait(message)
        if isinstance(message, End):
            self._has_end = True
            if self._writing is not None:
                self._writing.reschedule(asyncio.get_running_loop().time())

    async def answer(self) -> End:
        """Do what the messages say, and return the last one."""
        while True:
            match await self._messages.get():
                case Send(_, response):
                    await self._write(response)
                case Read():
                    request = await self._context.read()
                    self._link.send(Received(self._number, None if request is aio.EOF else request))
                case Headers(_, metadata):
                    await self._context.send_initial_metadata(metadata)
                case End() as end:
                    return end

    async def _write(self, response: bytes) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if self._has_end else None) as self._writing:
                await self._context.write(response)
                self._link.send(Sent(self._number))
        self._writing = None


async def end_call(context: Context, end: End) -> None:
    """End a call with a status; raises AbortError for one that is not OK."""
    if (code := grpc.StatusCode[end.code]) is grpc.StatusCode.OK:
        context.set_trailing_metadata(end.metadata)
    else:
        await context.abort(code, end.details, end.metadata)


def main(descriptor: int) -> None:
    """Serve on this descriptor until the service closes it, or ends."""
    prepare_part()
    asyncio.run(_run(descriptor))


async def _run(descriptor: int) -> None:
    await Front(socket.socket(fileno=descriptor)).run()
