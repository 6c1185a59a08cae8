"""ErrorInterceptor: the one place where exceptions become gRPC statuses."""

import asyncio
import logging
from typing import Any, NoReturn

import grpc
from grpc import aio

from services.service.errors import InternalError, RpcError
from services.service.method_handler import Answer, Context, Continuation, MethodHandler, wrapped

logger = logging.getLogger(__name__)


class ErrorInterceptor(aio.ServerInterceptor):
    """Ends a call with the status of the RpcError that its handler raised, or with INTERNAL after any other error.

    It wraps handlers that are coroutines, which stream by `context.write`; those that yield pass unchanged.
    """

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> MethodHandler:
        """Wrap the handler of one call."""
        handler = await continuation(handler_call_details)
        return wrapped(handler, lambda inner: _answering_errors(inner, handler_call_details.method))


def _answering_errors(handler: Answer, method: str) -> Answer:
    async def answer(request: Any, context: Context) -> Any:  # noqa: ANN401 - whatever the method's messages are
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
