"""Loading: work that takes long and cannot be interrupted, off the event loop."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(function: Callable[[], Result]) -> Result:
    """Run a function on a daemon thread: unlike an executor's, it does not hold up the end of the process."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="load", daemon=True).start()
    return await asyncio.wrap_future(future)
