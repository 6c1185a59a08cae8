"""LoadingHealth: health as gRPC defines it, with a word on how far loading is while nothing is served."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

from collections.abc import Iterable
from typing import Any

from grpc import aio
from grpc_health.v1 import health, health_pb2

from services.engine.decoder.loading_progress import LoadingProgress

DETAIL = "outrider-loading"
"""Key of the trailing metadata that says it: the protocol of health has no field for that."""


class LoadingHealth(health.aio.HealthServicer):  # type: ignore[misc, name-defined]
    """Until `is_loading` is False, an answer to Check ends in metadata that say how much is loaded."""

    def __init__(self, progress: LoadingProgress, services: Iterable[str]) -> None:
        """`services` are those with a status; the empty name is the server's as a whole."""
        super().__init__()
        self._progress, self._services = progress, services
        self.is_loading = True

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        """The status of one service."""
        if self.is_loading:
            context.set_trailing_metadata(((DETAIL, str(self._progress)),))
        answer: health_pb2.HealthCheckResponse = await super().Check(request, context)
        return answer

    async def List(
        self, request: health_pb2.HealthListRequest, context: aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthListResponse:
        """The status of every service."""
        asked = {name: health_pb2.HealthCheckRequest(service=name) for name in self._services}
        return health_pb2.HealthListResponse(
            statuses={name: await self.Check(each, context) for name, each in asked.items()}
        )
