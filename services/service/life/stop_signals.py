"""StopSignals: the signals that end a process, gracefully or at once."""

import asyncio
import logging
import os
import signal
from typing import NoReturn

logger = logging.getLogger(__name__)


class StopSignals:
    """SIGTERM and SIGINT: the first of either requests a graceful end, the same one again ends the process at once.

    It must be the same one: a Ctrl-C arrives as SIGINT from the terminal and as SIGTERM from a parent process.
    """

    def __init__(self) -> None:
        """Install the handlers; to be called on the event loop, in the process's main thread."""
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
    """End the process and all its threads at once: the log is flushed, but requests are not drained."""
    logging.shutdown()
    os._exit(code)
