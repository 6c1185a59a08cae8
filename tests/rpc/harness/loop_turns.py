"""LoopTurns: what the turns of a server's event loop compute, in time of its own thread's, whatever else runs."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self
from unittest import mock

from tests.harness.servers.server import RunningTarget


class LoopTurns:
    """Looks on for as long as it is entered; the garbage that others left is not collected in a turn meanwhile."""

    def __init__(self, target: RunningTarget) -> None:
        self.seconds: list[float] = []
        self._thread = target.call(_this_thread())
        self._run = asyncio.Handle._run
        self._patch = mock.patch.object(asyncio.Handle, "_run", self._timed())

    def __enter__(self) -> Self:
        gc.disable()
        self._patch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._patch.stop()
        gc.enable()

    def _timed(self) -> Callable[[asyncio.Handle], None]:
        def run(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            self._run(handle)
            if threading.get_ident() == self._thread:
                self.seconds.append(time.thread_time() - began)

        return run


async def _this_thread() -> int:
    return threading.get_ident()


def computed(work: Callable[[], object]) -> float:
    """Seconds that some work computes on this thread."""
    began = time.thread_time()
    work()
    return time.thread_time() - began
