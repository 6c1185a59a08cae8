"""Fronts: several processes that serve gRPC at one address, in place of an RpcServer."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import cast

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from grpc import aio

from services.engine.config import ConfigError
from services.engine.decoder.loading_progress import LoadingProgress
from services.service.access.caller import Callers
from services.service.free_address import reserved_address
from services.service.interceptors import Checks, ErrorInterceptor, RequestParser
from services.service.life.log_level import current_level
from services.service.rpc_server import request_bytes
from services.service.server_config import ServerConfig
from services.target.fronts.call_dispatch import CallDispatch
from services.target.fronts.messages import Level, Order, Serving
from services.target.fronts.served_front import ServedFront
from services.telemetry.log_lines import current_format

logger = logging.getLogger(__name__)

_LOADING_SECONDS, _SERVING_SECONDS = 0.2, 1.0  # between two statuses that fronts must confirm
_PAUSE_SECONDS = 0.5  # before another process takes the place of one that has ended


class Fronts:
    """Answers here the calls that come to the fronts; what they share, such as limits, is therefore exact."""

    def __init__(
        self,
        config: ServerConfig,
        callers: Callers,
        services: Seq[str],
        register: Callable[[aio.Server], None],
        progress: LoadingProgress,
        *,
        count: int,
        checks: Checks = MappingProxyType({}),
    ) -> None:
        """`count` is the number of processes; the others are as RpcServer's. Raises ConfigError."""
        self._config, self._services, self._progress, self._count = config, services, progress, count
        self.calls: Counter[tuple[str, str]] = Counter()
        self.held_bytes = request_bytes(config)
        parser = RequestParser(callers, self.held_bytes, checks)
        self._dispatch = CallDispatch([ErrorInterceptor(), parser])
        register(cast(aio.Server, self._dispatch))  # which takes what generated code registers
        self._fronts: dict[int, ServedFront] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_serving = False
        self._held = ExitStack()

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes; for any thread."""
        return [front.process_id for front in [*self._fronts.values()]]

    async def start(self) -> str:
        """Start the processes, and return their address; raises ConfigError if they cannot listen."""
        address = self._held.enter_context(reserved_address("listen", self._config.listen))
        self._config = replace(self._config, listen=address)
        try:
            await asyncio.gather(*(self._start(place) for place in range(self._count)))
        except BaseException:
            await self.stop()
            raise
        self._tasks = [asyncio.create_task(self._keep(place)) for place in range(self._count)]
        self._tasks.append(asyncio.create_task(self._report_status()))
        return address

    async def set_serving(self, is_serving: bool) -> None:
        """Set the status that health checks report."""
        self._is_serving = is_serving
        await asyncio.gather(*(front.show(self._status()) for front in self._fronts.values()))

    def follow_log_level(self) -> None:
        """Let the fronts log messages of the same level as this process."""
        for front in self._fronts.values():
            front.send(Level(current_level()))

    async def stop(self) -> None:
        """Stop listening, close every connection, and end the calls that still run with UNAVAILABLE."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(front.stop() for front in self._fronts.values()))
        self._held.close()

    async def _start(self, place: int) -> None:
        front = self._fronts[place] = ServedFront(self._dispatch, self.calls)
        await front.start(self._new_order())
        logger.info("a front has process %s", front.process_id)
        await front.show(self._status())

    async def _keep(self, place: int) -> None:
        """Start another process in the place of each that ends."""
        while True:
            code = await self._fronts[place].wait_gone()
            logger.error("the process of a front has ended by itself, with code %s; another one is started", code)
            try:
                await self._start(place)
            except (ConfigError, OSError) as error:
                logger.error("a front cannot serve: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _new_order(self) -> Order:
        return Order(
            self._config,
            tuple(self._services),
            self._dispatch.methods,
            _descriptions(self._services),
            current_format(),
            current_level(),
        )

    async def _report_status(self) -> None:
        """Tell the fronts again and again how much of the model is loaded, which also finds those that hang."""
        while True:
            await asyncio.sleep(_SERVING_SECONDS if self._is_serving else _LOADING_SECONDS)
            await self.set_serving(self._is_serving)

    def _status(self) -> Serving:
        return Serving(self._is_serving, self._progress.share)


def _descriptions(services: Seq[str]) -> tuple[bytes, ...]:
    """The serialized descriptions of services, each file after those that it imports."""
    found: dict[str, bytes] = {}

    def add(file: FileDescriptor) -> None:
        if file.name not in found:
            for imported in file.dependencies:
                add(imported)
            found[file.name] = file.serialized_pb

    for service in services:
        add(descriptor_pool.Default().FindFileContainingSymbol(service))
    return tuple(found.values())
