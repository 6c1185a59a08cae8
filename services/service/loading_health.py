"""LoadingHealth: health as gRPC defines it, with a word on how far loading is while nothing is served."""

# ruff: noqa: N802 -- the proto names the method

from typing import Any

from grpc import aio
from grpc_health.v1 import health, health_pb2

from services.engine.decoder.loading_progress import LoadingProgress

DETAIL = "outrider-loading"
"""Key of the trailing metadata that says it: the protocol of health has no field for that."""


class LoadingHealth(health.aio.HealthServicer):  # type: ignore[misc, name-defined]
    """Until `is_loading` is False, an answer to Check ends in metadata that say how much is loaded."""

    def __init__(self, progress: LoadingProgress) -> None:
        super().__init__()
        self._progress = progress
        self.is_loading = True

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        """The status of one service."""
        if self.is_loading:
            context.set_trailing_metadata(((DETAIL, str(self._progress)),))
        answer: health_pb2.HealthCheckResponse = await super().Check(request, context)
        return answer
