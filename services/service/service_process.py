"""Runs a service as a process: from its start to its exit code."""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Callable
from typing import Protocol

from services.engine.config import ConfigError
from services.engine.decoder.native import DeviceError
from services.engine.files.checkpoint_error import CheckpointError
from services.service.errors import EngineFailedError
from services.service.life.exit_code import ExitCode
from services.service.life.log_level import set_level
from services.service.life.reload import Reload
from services.service.life.stop_signals import StopSignals, end_now
from services.telemetry.log_lines import configure_logging

SWITCH_INTERVAL = 0.00005  # seconds; at Python's own 5 ms the engine waits that long for the GIL after each pass


def prepare_part() -> None:
    """Make this process part of a service, which gets the signals that may be sent to all of its processes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_INTERVAL)


class Service(Protocol):
    """A service's life, on one event loop."""

    reload: Reload

    async def start(self) -> str:
        """Listen, and return the address."""

    async def open(self) -> None:
        """Load the model and serve."""

    async def wait_failed(self) -> ExitCode:
        """Return the process's exit code when the engine has failed for good; health has reported it by then."""

    async def close(self) -> None:
        """Drain, and close the engine."""


def run_service(name: str, make: Callable[[], Service], *, log_format: str) -> int:
    """Serve until SIGTERM, SIGINT or a failure, and return the exit code; `make` is called on the event loop."""
    configure_logging(name, log_format)
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        return asyncio.run(_serve(make))
    except (CheckpointError, ConfigError, DeviceError, EngineFailedError) as error:
        print(f"outrider {name}: {error}", file=sys.stderr)
        return ExitCode.NOT_STARTED


async def _serve(make: Callable[[], Service]) -> ExitCode:
    service = make()
    stopped = asyncio.create_task(StopSignals().wait())
    service.reload.add("log level", set_level)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reload)
    print(f"listening on {await service.start()}", flush=True)
    try:
        opened = asyncio.create_task(service.open())
        await asyncio.wait([opened, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            await service.close()
            end_now(ExitCode.STOPPED)  # native code that loads weights on another thread cannot be interrupted
        opened.result()
        with contextlib.suppress(BrokenPipeError):  # the parent process may have stopped reading
            print("serving", flush=True)
        gc.freeze()  # loaded objects stay: scanning them would delay every stream by tens of milliseconds
        failed = asyncio.create_task(service.wait_failed())
        failed.add_done_callback(_end_if_hung)  # also while the service drains
        await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
        return failed.result() if failed.done() else ExitCode.STOPPED
    finally:
        await service.close()


def _end_if_hung(failed: asyncio.Task[ExitCode]) -> None:
    """Kill the process if its engine hangs: native code cannot be interrupted. Clients resume as after a crash."""
    if not failed.cancelled() and failed.result() is ExitCode.ENGINE_HUNG:
        end_now(ExitCode.ENGINE_HUNG)
