"""ErrorInterceptor: the one place where exceptions become gRPC statuses."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import grpc
from grpc import aio

from services.rpc.errors import InternalError, RpcError

logger = logging.getLogger(__name__)

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
Context = aio.ServicerContext[Any, Any]
Handler = Callable[[RequestT, Context], Awaitable[ResponseT]]
MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class ErrorInterceptor(aio.ServerInterceptor):
    """Ends a call with the status of the RpcError that its handler raised, or with INTERNAL after any other error.

    It wraps handlers that are coroutines, which stream by `context.write`; those that yield pass unchanged.
    """

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[MethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> MethodHandler:
        """Wrap the handler of one call."""
        handler = await continuation(handler_call_details)
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
                _answering_errors(inner, handler_call_details.method),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            ),
        )


def _answering_errors(handler: Handler[RequestT, ResponseT], method: str) -> Handler[RequestT, ResponseT]:
    async def answer(request: RequestT, context: Context) -> ResponseT:
        try:
            return await handler(request, context)
        except aio.AbortError:
            raise
        except aio.InternalError as error:  # a message could not be sent: its reader left before we were told
            raise asyncio.CancelledError from error
        except RpcError as error:
            await _abort(context, error)
        except Exception:
            logger.exception("%s failed", method)
            await _abort(context, InternalError("the server failed at this call; its log says why"))

    return answer


async def _abort(context: Context, error: RpcError) -> NoReturn:
    status = error.status()
    await context.abort(status.code, status.details, status.trailing_metadata or ())
