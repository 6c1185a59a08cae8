"""EngineHost: opens an engine beside the event loop, and notices when it dies."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar


class Engine(Protocol):
    """What computes, on a thread of its own."""

    def close(self) -> None:
        """End the thread, and wait for it."""


EngineT = TypeVar("EngineT", bound=Engine)


class EngineHost(Generic[EngineT]):
    """Opens and closes an engine beside the event loop that it is made on, where both are to be called."""

    def __init__(self, open_engine: Callable[[Callable[[], None]], EngineT]) -> None:
        """`open_engine` may take long; it is given what is to be called, on any thread, when the engine has died."""
        self.engine: EngineT | None = None
        self._open_engine = open_engine
        self._loop = asyncio.get_running_loop()
        self._failed = asyncio.Event()

    async def open(self) -> EngineT:
        """Open the engine on a daemon thread: unlike an executor's, it does not hold up the end of the process."""
        future: Future[EngineT] = Future()

        def run() -> None:
            try:
                future.set_result(self._open_engine(self._fail))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="load", daemon=True).start()
        self.engine = await asyncio.wrap_future(future)
        return self.engine

    async def wait_failed(self) -> None:
        """Return when the engine has died."""
        await self._failed.wait()

    async def close(self) -> None:
        """Close the engine, if there is one."""
        if self.engine is not None:
            await asyncio.to_thread(self.engine.close)

    def _fail(self) -> None:
        self._loop.call_soon_threadsafe(self._failed.set)
