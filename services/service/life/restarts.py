"""Restarts: restarts a failed engine, with exponential backoff."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0  # seconds
_CALM = 60.0  # seconds without a failure, after which the pause is reset


class Restarts:
    """Retries until the start succeeds, with pauses that double, so that an immediate failure costs little."""

    def __init__(self) -> None:
        self._pause = 0.0
        self._started_at = 0.0

    async def run(self, start: Callable[[], Awaitable[None]]) -> None:
        """Call `start` until it succeeds."""
        if time.monotonic() > self._started_at + _CALM:
            self._pause = 0.0
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            try:
                await start()
            except Exception:  # a lost device raises errors of any kind
                logger.exception("the engine cannot be restarted; the next try is in %.1f s", self._pause)
                continue
            self._started_at = time.monotonic()
            logger.warning("the engine has been restarted with the loaded weights")
            return
