"""Interceptors that every call passes before its method: first ErrorInterceptor, at last RequestParser."""

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeAlias, cast

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from services.service.access.caller import Callers
from services.service.admission import Admission
from services.service.errors import (
    EngineFailedError,
    InternalError,
    InvalidRequestError,
    RpcError,
    UnavailableError,
    Violation,
)

logger = logging.getLogger(__name__)

MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[MethodHandler]]
Context = aio.ServicerContext[Any, Any]
Answer = Callable[[Any, Context], Awaitable[Any]]
Checks = Mapping[str, Callable[[Context], None]]
"""Checks that raise an RpcError before a call's request is read, by the paths of unary-stream methods."""
OnEnded = Callable[[str, str], None]
"""Called with the method and the code of a call that has ended."""
_Parse = Callable[[bytes], Any]
_OWN_PACKAGES = ("outrider.", "grpc.")  # the packages whose method names are unique
_SMALL = 64 << 10  # bytes, which take less than a millisecond


def counted(calls: "Counter[tuple[str, str]]") -> OnEnded:
    """Return what counts the calls that have ended, by method and code."""

    def count(method: str, code: str) -> None:
        calls[method, code] += 1

    return count


class ErrorInterceptor(aio.ServerInterceptor):
    """The one place where exceptions become gRPC statuses: ends a call with the status of the RpcError that its handler
    raised, or with INTERNAL after any other error.

    It wraps coroutine handlers, which stream by `context.write`; async generators pass unchanged.
    """

    def __init__(self, on_ended: OnEnded = lambda *_: None) -> None:
        self._on_ended = on_ended

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> MethodHandler:
        """Wrap the handler of one call."""
        handler = await continuation(handler_call_details)
        return _wrapped(handler, lambda inner: self._reporting(inner, handler_call_details.method))

    def _reporting(self, handler: Answer, method: str) -> Answer:
        answering = _answering_errors(handler, method)

        async def answer(request: Any, context: Context) -> Any:  # noqa: ANN401 - the method's own messages
            code = grpc.StatusCode.CANCELLED
            try:
                answered = await answering(request, context)
                code = grpc.StatusCode.OK
                return answered
            except aio.AbortError:
                code = context.code()
                raise
            finally:
                self._on_ended(_short_name(method), code.name)

        return answer


def _short_name(method: str) -> str:
    """Return the method's name; for other packages, whose names may equal ours, with its service's full name.

    `method` is "/package.Service/Name".
    """
    service, _, name = method.removeprefix("/").rpartition("/")
    return name if service.startswith(_OWN_PACKAGES) else f"{service}/{name}"


def _answering_errors(handler: Answer, method: str) -> Answer:
    async def answer(request: Any, context: Context) -> Any:  # noqa: ANN401 - the method's own messages
        try:
            return await _answered(handler(request, context), context, method)
        except aio.InternalError as error:  # nothing could be sent: the client left, and no cancellation came yet
            raise asyncio.CancelledError from error

    return answer


async def _answered(answer: Awaitable[Any], context: Context, method: str) -> Any:  # noqa: ANN401 - as above
    try:
        return await answer
    except (aio.AbortError, aio.InternalError):
        raise
    except RpcError as error:
        await _abort(context, error)
    except EngineFailedError as error:
        await _abort(context, UnavailableError(str(error)))
    except Exception:
        logger.exception("%s failed", method)
        await _abort(context, InternalError("the server failed at this call; its log says why"))


async def _abort(context: Context, error: RpcError) -> NoReturn:
    status = error.status()
    await context.abort(status.code, status.details, (*(status.trailing_metadata or ()), *error.trailers()))


class RequestParser(aio.ServerInterceptor):
    """Parses requests, large ones on a thread of its own.

    It parses one large request at a time, so that many at once delay the event loop no more than one does: some ten
    milliseconds, in which protobuf holds the GIL. A large request's bytes are admitted or rejected before parsing, and
    count until its call ends. Under overload, calls are rejected by the `checks` before their requests are read.
    """

    def __init__(self, callers: Callers, admission: Admission, checks: Checks) -> None:
        self._callers, self._admission, self._checks = callers, admission, checks
        self._thread = ThreadPoolExecutor(1, "parser")

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> MethodHandler:
        """Wrap the handler of one call; one that takes a stream passes unchanged: its messages are small."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming or (parse := handler.request_deserializer) is None:
            return handler
        if (check := self._checks.get(handler_call_details.method)) is not None:
            answer = _checked(self._parsing(cast(Answer, handler.unary_stream), parse), check)
            return grpc.stream_stream_rpc_method_handler(answer, None, handler.response_serializer)
        return _wrapped(handler, lambda inner: self._parsing(inner, parse), takes_bytes=True)

    def _parsing(self, handler: Answer, parse: _Parse) -> Answer:
        async def answer(data: bytes, context: Context) -> Any:  # noqa: ANN401 - the method's own answer
            if len(data) <= _SMALL:
                return await handler(_parsed(parse, data), context)
            with self._admission.admit(len(data), self._callers.of(context)):
                message = await asyncio.get_running_loop().run_in_executor(self._thread, _parsed, parse, data)
                del data
                return await handler(message, context)

        return answer


def _checked(handler: Answer, check: Callable[[Context], None]) -> Answer:
    """Return a handler that reads the request itself, after the check: a rejected call's request is never read."""

    async def answer(_: object, context: Context) -> Any:  # noqa: ANN401 - the method's own answer
        check(context)
        if (data := await context.read()) is aio.EOF:
            raise InvalidRequestError([Violation("request", "is missing; allowed: one message")])
        return await handler(data, context)

    return answer


def _parsed(parse: _Parse, data: bytes) -> Any:  # noqa: ANN401 - a message of some kind
    try:
        return parse(data)
    except DecodeError as error:
        problem = f"has {len(data)} bytes that cannot be parsed; allowed: a message of the method's type"
        raise InvalidRequestError([Violation("request", problem)]) from error


def _wrapped(handler: MethodHandler, wrap: Callable[[Answer], Answer], *, takes_bytes: bool = False) -> MethodHandler:
    """Return the handler with `wrap` around its function, which with `takes_bytes` gets the request unparsed.

    Only coroutine functions are wrapped, which stream by `context.write`; async generators are returned unchanged.
    """
    if handler is None:
        return None
    shape = "_".join(
        "stream" if streams else "unary" for streams in (handler.request_streaming, handler.response_streaming)
    )
    inner = getattr(handler, shape)
    if not inspect.iscoroutinefunction(inner):
        return handler
    make = getattr(grpc, f"{shape}_rpc_method_handler")
    return cast(
        MethodHandler,
        make(
            wrap(inner),
            request_deserializer=None if takes_bytes else handler.request_deserializer,
            response_serializer=handler.response_serializer,
        ),
    )
