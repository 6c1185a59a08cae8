"""RequestParser: turns the bytes of requests into messages, those of megabytes beside the event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, cast

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from services.rpc.errors import InvalidRequestError, Violation

_SMALL = 64 << 10  # bytes, which take less than a millisecond
_Parse = Callable[[bytes], Any]
_MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class RequestParser(aio.ServerInterceptor):
    """Parses one large request at a time, so that many at once delay the event loop by no more than one of them: some
    ten milliseconds, in which the library does not let other threads run.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "parser")

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_MethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _MethodHandler:
        """Wrap the handler of one call; those that take a stream pass unchanged: its messages are small."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming or handler.request_deserializer is None:
            return handler
        shape = "unary_stream" if handler.response_streaming else "unary_unary"
        inner, parse = getattr(handler, shape), handler.request_deserializer
        if not asyncio.iscoroutinefunction(inner):
            return handler

        async def answer(data: bytes, context: aio.ServicerContext[Any, Any]) -> Any:  # noqa: ANN401 - whatever it is
            return await inner(await self._parse(parse, data), context)

        make = getattr(grpc, f"{shape}_rpc_method_handler")
        return cast(_MethodHandler, make(answer, response_serializer=handler.response_serializer))

    async def _parse(self, parse: _Parse, data: bytes) -> Any:  # noqa: ANN401 - a message of some kind
        try:
            if len(data) <= _SMALL:
                return parse(data)
            return await asyncio.get_running_loop().run_in_executor(self._thread, parse, data)
        except DecodeError as error:
            problem = f"has {len(data)} bytes that are no such message; allowed: what its proto says"
            raise InvalidRequestError([Violation("request", problem)]) from error
