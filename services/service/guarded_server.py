"""GuardedServer: grpc.aio's server without two weak spots: odd paths shut it down, and bursts are accepted slowly.

Both are in grpcio's own loop, ahead of every interceptor and handler, so nothing public reaches them. This is the only
module that uses private parts of grpcio; under a grpcio without them it cannot be imported.
"""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Sequence as Seq
from typing import Any, NoReturn

import grpc
from grpc import aio
from grpc._cython import cygrpc
from grpc.aio import _server

UNKNOWN = ""
"""The method that interceptors see for a call whose path names no served method."""

_AT_ONCE = 8  # calls of one method that are accepted in one turn of the event loop
_PARTS = (
    *("get_working_loop", "_MethodResolver", "_handle_rpc", "_schedule_rpc_coro", "AioServer._request_call"),
    *("AioServer._request_registered_call", "AioServer.add_registered_method_handlers"),
)


def require_parts(module: object) -> None:
    """Check that grpcio's extension module has what a GuardedServer is made of; raises ImportError."""
    for part in _PARTS:
        owner = module
        for name in part.split("."):
            if not hasattr(owner, name):
                problem = f"grpcio {grpc.__version__} has no cygrpc.{part}, on which this server is built"
                raise ImportError(f"{problem}; install the version of grpcio that constraints.txt names")
            owner = getattr(owner, name)


require_parts(cygrpc)


class GuardedServer(_server.Server):
    """Serves registered methods, as generated code adds them: gRPC's core finds these by the bytes of a path.

    grpcio's main loop accepts calls with any other path one by one, decodes the path as UTF-8 outside of every handler,
    and shuts down if that fails. Such calls are kept from that loop here and answered with UNIMPLEMENTED. All other
    calls are kept from it too: it needs several turns of the event loop for one call, while here every turn accepts
    several.
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
        """Serve these methods too."""
        super().add_registered_method_handlers(method_handlers)
        self._handlers |= method_handlers

    async def _request_call(self) -> NoReturn:
        """Serve calls of unregistered methods; grpcio's main loop awaits this, and gets none until the server stops."""
        await self._serve(UNKNOWN, super()._request_call)

    async def _request_registered_call(self, method: bytes) -> NoReturn:
        """Serve calls of a registered method; the main loop gets none of these either."""
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
        """Handle a call as grpcio does for a path that it can decode: after the interceptors."""
        loop, resolver = self._own_loop, cygrpc._MethodResolver([], self._handlers)
        handling = cygrpc._handle_rpc(method, resolver, self._own_interceptors, call, loop, False)
        await cygrpc._schedule_rpc_coro(handling, call, loop, method)
