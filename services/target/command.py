"""The target command: its process, from its options to its exit code."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from typing import NoReturn

from services.engine.checkpoint_error import CheckpointError
from services.engine.config import ConfigError, EngineConfig
from services.rpc.server_config import ServerConfig
from services.target.options import add_options, engine_config, server_config
from services.target.server import EngineFailedError, TargetServer

__all__ = ["add_options", "run"]

_SWITCH_INTERVAL = 0.0002  # seconds; at Python's own 5 ms the engine waits that long for the GIL after each pass


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        return asyncio.run(_serve(engine_config(arguments), server_config(arguments), arguments.name))
    except (CheckpointError, ConfigError, EngineFailedError) as error:
        print(f"outrider target: {error}", file=sys.stderr)
        return 1


async def _serve(engine: EngineConfig, config: ServerConfig, name: str | None) -> int:
    server = TargetServer(engine, config, name=name)
    stopped = asyncio.ensure_future(_stop_signal())
    print(f"listening on {await server.start()}", flush=True)
    try:
        opened = asyncio.ensure_future(server.open())
        await asyncio.wait([opened, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            return await _abandon_loading(server)
        opened.result()
        failed = asyncio.ensure_future(server.wait_failed())
        await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
        return int(failed.done())
    finally:
        await server.close()


async def _stop_signal() -> None:
    """Return at the first SIGTERM or SIGINT; further ones change nothing."""
    received = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, received.set)
    await received.wait()


async def _abandon_loading(server: TargetServer) -> NoReturn:
    """End the process at once: native code that loads weights on another thread cannot be interrupted."""
    await server.close()
    logging.shutdown()
    os._exit(0)
