"""RequestParser: turns the bytes of requests into messages, those of megabytes beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from services.service.errors import InvalidRequestError, Violation
from services.service.method_handler import Answer, Context, Continuation, MethodHandler, wrapped

_SMALL = 64 << 10  # bytes, which take less than a millisecond
_Parse = Callable[[bytes], Any]


class RequestParser(aio.ServerInterceptor):
    """Parses one large request at a time, so that many at once delay the event loop by no more than one of them: some
    ten milliseconds, in which the library does not let other threads run.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "parser")

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> MethodHandler:
        """Wrap the handler of one call; those that take a stream pass unchanged: its messages are small."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming or (parse := handler.request_deserializer) is None:
            return handler
        return wrapped(handler, lambda inner: self._parsing(inner, parse), takes_bytes=True)

    def _parsing(self, handler: Answer, parse: _Parse) -> Answer:
        async def answer(data: bytes, context: Context) -> Any:  # noqa: ANN401 - whatever the method answers
            return await handler(await self._parse(parse, data), context)

        return answer

    async def _parse(self, parse: _Parse, data: bytes) -> Any:  # noqa: ANN401 - a message of some kind
        try:
            if len(data) <= _SMALL:
                return parse(data)
            return await asyncio.get_running_loop().run_in_executor(self._thread, parse, data)
        except DecodeError as error:
            problem = f"has {len(data)} bytes that are no such message; allowed: what its proto says"
            raise InvalidRequestError([Violation("request", problem)]) from error
