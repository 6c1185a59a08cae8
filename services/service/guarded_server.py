"""GuardedServer: the server of grpc.aio, less its weak spot: a call whose path is not UTF-8 would end it."""

import asyncio
from collections.abc import Sequence as Seq
from typing import Any, NoReturn

from grpc import aio
from grpc._cython import cygrpc
from grpc.aio import _server

UNKNOWN = ""
"""What interceptors get as the method of a call whose path names none that is served."""

_NOTHING = cygrpc._MethodResolver([], {})


class GuardedServer(_server.Server):
    """Serves registered methods, which is how generated code adds them: gRPC's core finds those by the bytes of a path.

    Calls with any other path come to grpcio one by one, whose main loop decodes it as UTF-8 outside of every handler
    and shuts down if it cannot. They are kept from that loop here, and answered with UNIMPLEMENTED.
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
        self._unknown: set[asyncio.Task[None]] = set()

    async def _request_call(self) -> NoReturn:
        """The main loop waits for a call that is not of a registered method, and gets none until the server stops."""
        while True:
            call = await super()._request_call()
            task = self._own_loop.create_task(self._refuse(call))
            self._unknown.add(task)
            task.add_done_callback(self._unknown.discard)

    async def _refuse(self, call: Any) -> None:  # noqa: ANN401 - grpcio's own, and opaque
        """As grpcio does it for a path that it can decode: behind the interceptors."""
        loop = self._own_loop
        handling = cygrpc._handle_rpc(UNKNOWN, _NOTHING, self._own_interceptors, call, loop, False)
        await cygrpc._schedule_rpc_coro(handling, call, loop, UNKNOWN)
