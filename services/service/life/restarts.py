"""Restarts: how soon what has failed is started again."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0  # seconds
_CALM = 60.0  # seconds without a failure, behind which the next one is a first one again


class Restarts:
    """Starts again for as long as it takes, with pauses that double, so that what fails at once costs little."""

    def __init__(self) -> None:
        self._pause = 0.0
        self._started_at = 0.0

    async def run(self, start: Callable[[], Awaitable[None]]) -> None:
        """Return when it has been started."""
        if time.monotonic() > self._started_at + _CALM:
            self._pause = 0.0
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            try:
                await start()
            except Exception:  # whatever a device says that is gone
                logger.exception("the engine cannot be started again; the next try is in %.1f s", self._pause)
                continue
            self._started_at = time.monotonic()
            logger.warning("the engine has been started again, on the weights that are loaded")
            return
