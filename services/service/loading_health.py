"""LoadingHealth: gRPC's health service, which also reports the loading progress until requests are served."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

from collections.abc import Iterable
from typing import Any

from grpc import aio
from grpc_health.v1 import health, health_pb2

from services.engine.decoder.loading_progress import LoadingProgress

DETAIL = "outrider-loading"
"""Key of the trailing metadata with the progress: the health protocol has no field for it."""


class LoadingHealth(health.aio.HealthServicer):  # type: ignore[misc, name-defined]
    """While `is_loading`, the trailing metadata of Check's answers report how much is loaded."""

    def __init__(self, progress: LoadingProgress, services: Iterable[str]) -> None:
        """`services` are the services with a status; the empty name stands for the whole server."""
        super().__init__()
        self._progress, self._services = progress, services
        self.is_loading = True

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        """Return the status of one service."""
        if self.is_loading:
            context.set_trailing_metadata(((DETAIL, str(self._progress)),))
        answer: health_pb2.HealthCheckResponse = await super().Check(request, context)
        return answer

    async def List(
        self, request: health_pb2.HealthListRequest, context: aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthListResponse:
        """Return the status of every service."""
        requests = {name: health_pb2.HealthCheckRequest(service=name) for name in self._services}
        return health_pb2.HealthListResponse(
            statuses={name: await self.Check(each, context) for name, each in requests.items()}
        )
