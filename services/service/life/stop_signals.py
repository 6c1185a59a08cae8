"""StopSignals: how a process is told to end, and to end at once."""

import asyncio
import logging
import os
import signal
from typing import NoReturn

logger = logging.getLogger(__name__)


class StopSignals:
    """SIGTERM and SIGINT: the first of either asks for an end, the same one again ends the process on the spot.

    Not any second one: a terminal's Ctrl-C comes from the terminal and, as SIGTERM, from a parent that passes it on.
    """

    def __init__(self) -> None:
        """Call it on the event loop, from a process's main thread."""
        self._received: set[int] = set()
        self._is_received = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._receive, number)

    async def wait(self) -> None:
        """Return at the first of them."""
        await self._is_received.wait()

    def _receive(self, number: int) -> None:
        if number in self._received:
            logger.warning("%s again: the process ends at once", signal.Signals(number).name)
            end_now(128 + number)
        self._received.add(number)
        self._is_received.set()


def end_now(code: int) -> NoReturn:
    """End the process with all its threads, whatever they are at; nothing is drained, and the log is written."""
    logging.shutdown()
    os._exit(code)
