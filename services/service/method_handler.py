"""Method handlers: what gRPC calls for a method, with something put around it."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc
from grpc import aio

MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[MethodHandler]]
Context = aio.ServicerContext[Any, Any]
Answer = Callable[[Any, Context], Awaitable[Any]]


def wrapped(handler: MethodHandler, wrap: Callable[[Answer], Answer], *, takes_bytes: bool = False) -> MethodHandler:
    """The handler with `wrap` around what answers; `takes_bytes` where that is to get the request unparsed.

    Only coroutines are wrapped, which stream by `context.write`; a handler that yields is returned unchanged.
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
