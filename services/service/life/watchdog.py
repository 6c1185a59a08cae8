"""Watchdog: notices an engine that has not come back from a step, as where a GPU has stopped."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from services.engine.loop import Pulse

logger = logging.getLogger(__name__)

_FACTOR = 100  # times what a step usually takes: a step may be long, but not that much longer than those before it
_LONGEST_INTERVAL = 1.0  # seconds between two looks
_LOOKS = 10  # within the shortest bound


class Watchdog:
    """A step is late after a hundred times what steps usually take, and never before `floor` seconds; one that takes
    twice as long as that is taken for hung.

    Only time in which this process ran counts: one that was stopped as a whole, with its machine or by a signal, is
    not to be ended for it when it goes on.
    """

    def __init__(self, pulse: Callable[[], Pulse], *, floor: float) -> None:
        self._pulse = pulse
        self._floor = floor
        self._interval = min(_LONGEST_INTERVAL, floor / _LOOKS)
        self._turn = -1
        self._seconds = 0.0  # at that turn
        self._looked_at = time.monotonic()
        self.is_late = False

    async def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Return when a step is hung; `on_change` is called when one is late, and when it has ended after all."""
        while True:
            await asyncio.sleep(self._interval)
            bound = self._look()
            if self._seconds >= 2 * bound:
                logger.error("the engine has been at one step for %.1f s: it is taken for hung", self._seconds)
                return
            is_late = self._seconds >= bound
            if is_late != self.is_late:
                self.is_late = is_late
                self._log(bound)
                await on_change()

    def _look(self) -> float:
        """Count how long the engine has been at its step, and return after how many seconds that is too long."""
        pulse, now = self._pulse(), time.monotonic()
        elapsed = min(now - self._looked_at, 2 * self._interval)
        is_same = pulse.turn == self._turn and not pulse.is_asleep
        self._seconds = self._seconds + elapsed if is_same else 0.0
        self._turn, self._looked_at = pulse.turn, now
        return max(self._floor, _FACTOR * pulse.usual_seconds)

    def _log(self, bound: float) -> None:
        if self.is_late:
            logger.error("the engine has been at one step for %.1f s: nothing is served until it ends", self._seconds)
        else:
            logger.warning("the engine has ended a step that took more than %.1f s: requests are served again", bound)
