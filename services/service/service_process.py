"""The process of a service: from its options to its exit code."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn, Protocol

from services.engine.config import ConfigError
from services.engine.decoder.native import DeviceError
from services.engine.files.checkpoint_error import CheckpointError
from services.service.errors import EngineFailedError
from services.telemetry.log_lines import configure_logging

_SWITCH_INTERVAL = 0.00005  # seconds; at Python's own 5 ms the engine waits that long for the GIL after each pass


class Service(Protocol):
    """A service's life, on one event loop."""

    async def start(self) -> str:
        """Listen, and return the address."""

    async def open(self) -> None:
        """Load the model and serve."""

    async def wait_failed(self) -> None:
        """Return when the engine thread has died."""

    async def close(self) -> None:
        """Drain, and end the engine."""


def run_service(name: str, make: Callable[[], Service], *, log_format: str) -> int:
    """Serve until SIGTERM or SIGINT; `make` is called on the event loop. Returns the exit code."""
    configure_logging(log_format)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        return asyncio.run(_serve(make))
    except (CheckpointError, ConfigError, DeviceError, EngineFailedError) as error:
        print(f"outrider {name}: {error}", file=sys.stderr)
        return 1


async def _serve(make: Callable[[], Service]) -> int:
    service = make()
    stopped = asyncio.ensure_future(_stop_signal())
    print(f"listening on {await service.start()}", flush=True)
    try:
        opened = asyncio.ensure_future(service.open())
        await asyncio.wait([opened, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            return await _abandon_loading(service)
        opened.result()
        gc.freeze()  # what is loaded stays: looking through it would hold up every stream for tens of milliseconds
        failed = asyncio.ensure_future(service.wait_failed())
        await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
        return int(failed.done())
    finally:
        await service.close()


async def _stop_signal() -> None:
    """Return at the first SIGTERM or SIGINT; further ones change nothing."""
    received = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, received.set)
    await received.wait()


async def _abandon_loading(service: Service) -> NoReturn:
    """End the process at once: native code that loads weights on another thread cannot be interrupted."""
    await service.close()
    logging.shutdown()
    os._exit(0)
