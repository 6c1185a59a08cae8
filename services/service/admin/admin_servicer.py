"""AdminServicer: the AdminService's methods that both services have; each adds its own."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from grpc import aio

from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceServicer
from services.engine.loop import Pulse
from services.service.errors import InvalidRequestError, UnavailableError, Violation
from services.service.life.availability import Availability
from services.service.life.log_level import LEVELS, current_level, set_level
from services.service.life.reload import Reload
from services.telemetry.telemetry import Telemetry

Context = aio.ServicerContext[Any, Any]
_DRAINED = "the server is drained"
_PATIENCE_SECONDS = 30.0  # a step of a large model may take long
_LEVELS = {getattr(admin_pb2, f"LOG_LEVEL_{level}"): level for level in LEVELS}


class AdministeredEngine(Protocol):
    """An engine of either kind."""

    @property
    def pulse(self) -> Pulse:
        """Signs of life of its thread."""

    def forget_cache(self) -> "Future[int]":
        """Empty the prefix cache between two steps, and return how many blocks could be found in it."""


EngineT = TypeVar("EngineT", bound=AdministeredEngine)


class AdminServicer(AdminServiceServicer, Generic[EngineT]):
    """Answers every call that arrives: the AccessInterceptor has already required the scope `admin`."""

    def __init__(
        self,
        availability: Availability,
        reload: Reload,
        telemetry: Telemetry,
        find_engine: Callable[[], EngineT | None],
    ) -> None:
        """`find_engine` returns the current engine, if any."""
        self._telemetry = telemetry
        self._availability = availability
        self._reload = reload
        self._find_engine = find_engine
        self._began = time.monotonic()

    async def Drain(self, request: admin_pb2.DrainRequest, context: Context) -> admin_pb2.DrainResponse:
        """Refuse new requests, and report how many are left."""
        await self._availability.obstruct(_DRAINED)
        engine = self._find_engine()
        return admin_pb2.DrainResponse(left=self._count_left(engine) if engine else 0)

    async def Undrain(self, request: admin_pb2.UndrainRequest, context: Context) -> admin_pb2.UndrainResponse:
        """Serve again, unless there is another reason not to."""
        await self._availability.clear(_DRAINED)
        return admin_pb2.UndrainResponse(refusal=self._availability.reason)

    async def GetStatistics(
        self, request: admin_pb2.GetStatisticsRequest, context: Context
    ) -> admin_pb2.GetStatisticsResponse:
        """Report statistics, read without the engine's thread, so that a hung engine is reported too."""
        engine = self._require_engine()
        statistics = admin_pb2.GetStatisticsResponse(
            refusal=self._availability.reason,
            uptime_seconds=time.monotonic() - self._began,
            step_seconds=engine.pulse.usual_seconds,
            log_level=admin_pb2.LogLevel.Value(f"LOG_LEVEL_{current_level()}"),
        )
        await self._describe(engine, statistics)
        return statistics

    async def GetMetrics(self, request: admin_pb2.GetMetricsRequest, context: Context) -> admin_pb2.GetMetricsResponse:
        """Report all metrics; the page is made off the event loop."""
        return admin_pb2.GetMetricsResponse(page=await asyncio.to_thread(self._telemetry.page))

    async def FlushPrefixCache(
        self, request: admin_pb2.FlushPrefixCacheRequest, context: Context
    ) -> admin_pb2.FlushPrefixCacheResponse:
        """Empty the prefix cache: no block that was computed until now is found again."""
        forgetting = asyncio.wrap_future(self._require_engine().forget_cache())
        try:
            num_blocks = await asyncio.wait_for(forgetting, _PATIENCE_SECONDS)
        except TimeoutError as error:
            raise UnavailableError(f"the engine has not answered for {_PATIENCE_SECONDS:g} s") from error
        return admin_pb2.FlushPrefixCacheResponse(forgotten_blocks=num_blocks)

    async def SetLogLevel(
        self, request: admin_pb2.SetLogLevelRequest, context: Context
    ) -> admin_pb2.SetLogLevelResponse:
        """Set the log level; raises InvalidRequestError for an unknown one."""
        if (level := _LEVELS.get(request.level)) is None:
            allowed = ", ".join(f"LOG_LEVEL_{each}" for each in LEVELS)
            raise InvalidRequestError([Violation("level", f"is {request.level}; allowed: {allowed}")])
        set_level(level)
        return admin_pb2.SetLogLevelResponse()

    async def Reload(self, request: admin_pb2.ReloadRequest, context: Context) -> admin_pb2.ReloadResponse:
        """Reload everything that can be reloaded while the service runs."""
        return admin_pb2.ReloadResponse(problems=self._reload())

    @abstractmethod
    def _count_left(self, engine: EngineT) -> int:
        """Return how many requests are running or queued."""

    @abstractmethod
    async def _describe(self, engine: EngineT, statistics: admin_pb2.GetStatisticsResponse) -> None:
        """Add the statistics of the cache, and those that only this kind of service has."""

    def _require_engine(self) -> EngineT:
        if (engine := self._find_engine()) is None:
            raise UnavailableError("the model is not loaded")
        return engine
