"""Watchdog: notices an engine that does not return from a step, for example because its GPU has stopped."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from services.engine.loop import Pulse

logger = logging.getLogger(__name__)

_FACTOR = 100  # times a step's usual time: a step may be long, but not that much longer than those before it
_LONGEST_INTERVAL = 1.0  # seconds between two checks
_LOOKS = 10  # checks within the shortest bound


class Watchdog:
    """A step is late after a hundred times the usual time of a step, and never before `floor` seconds; it is considered
    hung after twice that bound.

    Only time in which this process ran counts: a process that was suspended, with its machine or by a signal, must not
    be ended for that when it resumes.
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
        """Return when a step hangs; `on_change` is called when a step is late, and when a late step has ended."""
        while True:
            await asyncio.sleep(self._interval)
            bound = self._look()
            if self._seconds >= 2 * bound:
                logger.error("the engine has been in one step for %.1f s: it is considered hung", self._seconds)
                return
            is_late = self._seconds >= bound
            if is_late != self.is_late:
                self.is_late = is_late
                self._log(bound)
                await on_change()

    def _look(self) -> float:
        """Count how long the engine has been in its step, and return the number of seconds after which it is late."""
        pulse, now = self._pulse(), time.monotonic()
        elapsed = min(now - self._looked_at, 2 * self._interval)
        is_same = pulse.turn == self._turn and not pulse.is_asleep
        self._seconds = self._seconds + elapsed if is_same else 0.0
        self._turn, self._looked_at = pulse.turn, now
        return max(self._floor, _FACTOR * pulse.usual_seconds)

    def _log(self, bound: float) -> None:
        if self.is_late:
            logger.error("the engine has been in one step for %.1f s: nothing is served until it ends", self._seconds)
        else:
            logger.warning("the engine has ended a step that took more than %.1f s: requests are served again", bound)
