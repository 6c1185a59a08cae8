"""AccessInterceptor: refuses calls without a token or with one that does not allow the method."""

import logging
from typing import Any, NoReturn

import grpc
from grpc import aio
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from services.service.access.caller import Caller, Callers, Scope
from services.service.errors import PermissionDeniedError, RpcError
from services.service.guarded_server import UNKNOWN
from services.service.interceptors import Continuation, MethodHandler
from services.service.log_rate_limit import LogRateLimit
from services.service.printable import printable

logger = logging.getLogger(__name__)

_CONTRACT = "vllm.grpc.engine.VllmEngine"
_INFERENCE, _CONTROL = "openengine.v1.Inference", "openengine.v1.Control"
_OPEN = health.SERVICE_NAME  # called by probes and balancers, which have no token
_OPEN_METHODS = (f"/{_CONTRACT}/HealthCheck", f"/{_CONTROL}/Health")  # called by routers instead
_SCOPES = {
    f"/{_CONTRACT}/SubscribeKvEvents": Scope.KV_EVENTS,  # tells prompts
    f"/{_CONTROL}/SubscribeKvEvents": Scope.KV_EVENTS,
    f"/{_CONTROL}/LoadLora": Scope.ADMIN,
    f"/{_CONTROL}/UnloadLora": Scope.ADMIN,
    f"/{_CONTROL}/ListLoras": Scope.ADMIN,  # tells where they are
}
_OF_ANY_TOKEN = (reflection.SERVICE_NAME, UNKNOWN)
_NO_METHOD = "a method that does not exist"
_TO_GENERATE = ("outrider.v1.GenerationService", "outrider.v1.DraftService", _CONTRACT, _INFERENCE, _CONTROL)


class AccessInterceptor(aio.ServerInterceptor):
    """Passes calls on that their token allows; it runs after the ErrorInterceptor, before a request is read."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._log_limit = LogRateLimit()

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> MethodHandler:
        """Return the method's own handler, or one that refuses; unknown methods need a token as well."""
        method = handler_call_details.method
        try:
            self._check(method, handler_call_details.invocation_metadata)
        except RpcError as error:
            if self._log_limit.may_log():
                logger.warning(
                    "a call of %s is refused: %s%s", printable(method) or _NO_METHOD, error, self._log_limit.left_out()
                )
            return _refusing(error)
        return await continuation(handler_call_details)

    def _check(self, method: str, metadata: Any) -> None:  # noqa: ANN401 - as gRPC gives it
        service = method.strip("/").partition("/")[0]
        if service == _OPEN or method in _OPEN_METHODS:
            return
        caller = self._callers.by_token(metadata or ())
        if (needed := _scope_of(method, service)) is not None:
            check_scope(caller, needed)


def check_scope(caller: Caller, needed: Scope) -> None:
    """Raise PermissionDeniedError if a caller lacks a scope."""
    if needed not in caller.scopes:
        has = ", ".join(sorted(scope.value for scope in caller.scopes))
        raise PermissionDeniedError(f"the token needs the scope {needed.value} for this method; it has {has}")


def _scope_of(method: str, service: str) -> Scope | None:
    """Return the scope that a method needs; None: any token will do."""
    if service in _OF_ANY_TOKEN:
        return None
    return _SCOPES.get(method, Scope.GENERATE if service in _TO_GENERATE else Scope.ADMIN)


def _refusing(error: RpcError) -> MethodHandler:
    """Return a handler that refuses a call of any kind without waiting for a message."""

    async def refuse(requests: Any, context: Any) -> NoReturn:  # noqa: ANN401, ARG001 - gRPC gives the arguments
        raise error

    handler: MethodHandler = grpc.stream_stream_rpc_method_handler(refuse)
    return handler
