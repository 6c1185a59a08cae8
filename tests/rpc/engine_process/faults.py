"""Faults that a test brings about in an engine's process."""

from services.target.engines.engine_server import EngineServer


async def break_down(server: EngineServer) -> None:
    """Let the engine's thread die of an error in its next step."""
    server.engine._loop.post(lambda: 1 // 0)  # type: ignore[arg-type]
