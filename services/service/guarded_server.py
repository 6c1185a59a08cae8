"""GuardedServer: the server of grpc.aio, less its weak spots: odd paths would end it, and crowds come in slowly."""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Sequence as Seq
from typing import Any, NoReturn

from grpc import aio
from grpc._cython import cygrpc
from grpc.aio import _server

UNKNOWN = ""
"""What interceptors get as the method of a call whose path names none that is served."""

_AT_ONCE = 8  # calls of one method that are taken in during one turn of the event loop


class GuardedServer(_server.Server):
    """Serves registered methods, which is how generated code adds them: gRPC's core finds those by the bytes of a path.

    Calls with any other path come to grpcio one by one, whose main loop decodes it as UTF-8 outside of every handler
    and shuts down if it cannot. They are kept from that loop here, and answered with UNIMPLEMENTED. So are all others,
    as that loop needs several turns of the event loop to take in one call: here some are taken in at every turn.
    """

    def __init__(self, interceptors: Seq[aio.ServerInterceptor], options: Seq[tuple[str, int]]) -> None:
        self._loop = cygrpc.get_working_loop()
        self._server = _Calls(self._loop, interceptors, options)


class _Calls(cygrpc.AioServer):  # type: ignore[misc]
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interceptors: Seq[aio.ServerInterceptor],
        options: Seq[tuple[str, int]],
    ) -> None:
        super().__init__(loop, None, (), interceptors, tuple(options), None)
        self._own_loop, self._own_interceptors = loop, tuple(interceptors)  # those of the superclass are hidden
        self._handlers: dict[str, Any] = {}
        self._calls: set[asyncio.Task[None]] = set()

    def add_registered_method_handlers(self, method_handlers: dict[str, Any]) -> None:
        """Serve these too."""
        super().add_registered_method_handlers(method_handlers)
        self._handlers |= method_handlers

    async def _request_call(self) -> NoReturn:
        """The main loop waits for a call that is not of a registered method, and gets none until the server stops."""
        await self._serve(UNKNOWN, super()._request_call)

    async def _request_registered_call(self, method: bytes) -> NoReturn:
        """It gets none of a registered method either."""
        request = super()._request_registered_call
        await asyncio.gather(*(self._serve(method.decode(), lambda: request(method)) for _ in range(_AT_ONCE)))
        raise AssertionError

    async def _serve(self, method: str, request: Callable[[], Awaitable[Any]]) -> NoReturn:
        while True:
            call = await request()
            task = self._own_loop.create_task(self._handle(method, call))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _handle(self, method: str, call: Any) -> None:  # noqa: ANN401 - grpcio's own, and opaque
        """As grpcio does it for a path that it can decode: behind the interceptors."""
        loop, resolver = self._own_loop, cygrpc._MethodResolver([], self._handlers)
        handling = cygrpc._handle_rpc(method, resolver, self._own_interceptors, call, loop, False)
        await cygrpc._schedule_rpc_coro(handling, call, loop, method)
