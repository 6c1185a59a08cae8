"""LoadingHealth: gRPC's health service, which also reports the loading progress until requests are served."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

import asyncio
from collections.abc import Sequence as Seq
from typing import Any, NoReturn

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.engine.decoder.loading_progress import LoadingProgress

DETAIL = "outrider-loading"
"""Key of the trailing metadata with the progress: the health protocol has no field for it."""

_Status = health_pb2.HealthCheckResponse.ServingStatus
_Context = aio.ServicerContext[Any, Any]


class LoadingHealth(health_pb2_grpc.HealthServicer):
    """All services have one status; until it was SERVING, trailing metadata of Check report how much is loaded.

    A watcher that reads nothing delays nobody: grpcio's own servicer would keep its lock while it writes.
    """

    def __init__(self, progress: LoadingProgress, services: Seq[str]) -> None:
        """`services` are the services with a status; the empty name stands for the whole server."""
        self._progress, self._services = progress, services
        self._status: _Status = _Status.NOT_SERVING
        self._is_loading = True
        self._changed = asyncio.Event()  # another one after each change

    def set(self, *, is_serving: bool) -> None:
        """Set the status."""
        self._status = _Status.SERVING if is_serving else _Status.NOT_SERVING
        self._is_loading = self._is_loading and not is_serving
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: _Context) -> health_pb2.HealthCheckResponse:
        """Return the status of one service."""
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND)
        self._add_progress(context)
        return health_pb2.HealthCheckResponse(status=self._status)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: _Context) -> NoReturn:
        """Send the status of one service, now and whenever it changes."""
        is_known, last = request.service in self._services, None
        while True:
            changed, status = self._changed, self._status if is_known else _Status.SERVICE_UNKNOWN
            if status != last:
                await context.write(health_pb2.HealthCheckResponse(status=status))
            last = status
            await changed.wait()

    async def List(self, request: health_pb2.HealthListRequest, context: _Context) -> health_pb2.HealthListResponse:
        """Return the status of every service."""
        self._add_progress(context)
        status = health_pb2.HealthCheckResponse(status=self._status)
        return health_pb2.HealthListResponse(statuses=dict.fromkeys(self._services, status))

    def _add_progress(self, context: _Context) -> None:
        if self._is_loading:
            context.set_trailing_metadata(((DETAIL, str(self._progress)),))
