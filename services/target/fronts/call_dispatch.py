"""CallDispatch: answers forwarded calls with the handlers that generated code registers."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import grpc
from grpc import aio

from services.service.interceptors import Context, Continuation, MethodHandler
from services.target.fronts.forwarded_call import ForwardedCall


@dataclass(slots=True)
class _Details:
    method: str
    invocation_metadata: Any


class CallDispatch:
    """In place of a server where handlers are registered; calls pass the interceptors, the first of them first."""

    def __init__(self, interceptors: Seq[aio.ServerInterceptor]) -> None:
        self.methods: dict[str, tuple[str, ...]] = {}
        """The names of the methods, by service."""
        self._handlers: dict[str, MethodHandler] = {}
        self._find: Continuation = self._handler
        for interceptor in reversed(interceptors):
            self._find = partial(interceptor.intercept_service, self._find)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, MethodHandler]) -> None:
        """Answer these methods of a service."""
        self.methods[service] = tuple(handlers)
        self._handlers.update({f"/{service}/{name}": handler for name, handler in handlers.items()})

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Do nothing: these are the same methods in grpcio's older form."""

    async def answer(self, call: ForwardedCall) -> None:
        """Answer a call, whose method is registered and has a coroutine function."""
        context = cast(Context, call)  # it has what the handlers use
        handler = await self._find(_Details(call.method, call.invocation_metadata()))
        assert handler is not None
        call.serialize = handler.response_serializer or bytes
        try:
            await _answer(handler, context)
        except aio.AbortError:  # its status is sent
            return
        call.end()

    async def _handler(self, details: grpc.HandlerCallDetails) -> MethodHandler:
        return self._handlers[details.method]


async def _answer(handler: Any, context: Context) -> None:  # noqa: ANN401 - the stubs hide what handlers have
    if handler.request_streaming:
        await handler.stream_stream(None, context)  # which reads by the context
        return
    if (request := await context.read()) is aio.EOF:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request is missing")
    if handler.response_streaming:
        await handler.unary_stream(request, context)
    else:
        await context.write(await handler.unary_unary(request, context))
