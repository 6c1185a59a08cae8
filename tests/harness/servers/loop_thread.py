"""LoopThread: an event loop on a thread of its own, for a server inside the test's process."""

import asyncio
import faulthandler
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")
PATIENCE_SECONDS = 300  # which only a fault can take, on however busy a machine


class LoopThread:
    """Runs from its making on until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server", daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and return what it returns; what hangs is shown before that raises."""
        try:
            return self.begin(coroutine).result(PATIENCE_SECONDS)
        except TimeoutError:
            faulthandler.dump_traceback()
            for task in asyncio.all_tasks(self._loop):
                task.print_stack()
            raise

    def begin(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """End the loop and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
