"""Faults that a test brings about in an engine's process."""

import time

from services.target.engines.engine_server import EngineServer


async def break_down(server: EngineServer) -> None:
    """Let the engine's thread die of an error in its next step."""
    server.engine._loop.post(lambda: 1 // 0)  # type: ignore[arg-type]


async def hang(server: EngineServer) -> None:
    """Let the engine's thread not come back from its next step."""
    server.engine._loop.post(lambda: time.sleep(3600))
