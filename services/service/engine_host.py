"""EngineHost: opens an engine off the event loop, and notices when it dies or hangs."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from services.engine.loop import Pulse
from services.service.life.availability import Availability
from services.service.life.exit_code import ExitCode
from services.service.life.watchdog import Watchdog

_LATE = "the engine has not returned from a step"


class Engine(Protocol):
    """An engine, which computes on a thread of its own."""

    @property
    def pulse(self) -> Pulse:
        """Signs of life of that thread."""

    def close(self) -> None:
        """End the thread, and wait for it."""


EngineT = TypeVar("EngineT", bound=Engine)
OnFailure = Callable[[], None]


class EngineHost(Generic[EngineT]):
    """Opens and closes an engine off the event loop; all methods are called on the loop that it is made on."""

    def __init__(
        self, open_engine: Callable[[OnFailure], EngineT], availability: Availability, *, hang_seconds: float
    ) -> None:
        """`open_engine` may take long; it gets a function to call, on any thread, when the engine has died.

        While a step of the engine takes longer than `hang_seconds`, and far longer than usual, no request is served.
        """
        self.engine: EngineT | None = None
        self._open_engine = open_engine
        self._availability = availability
        self._hang_seconds = hang_seconds
        self._loop = asyncio.get_running_loop()
        self._failed = asyncio.Event()

    async def open(self) -> EngineT:
        """Open the engine; raises what `open_engine` raises."""
        return await self._open(self._open_engine)

    async def replace(self, renew: Callable[[EngineT, OnFailure], EngineT]) -> EngineT:
        """Replace an engine that has died by another; raises what `renew` raises."""
        engine = self._opened()
        return await self._open(lambda on_failure: renew(engine, on_failure))

    async def wait_ended(self) -> ExitCode:
        """Return when the engine has died, or hangs in a step."""
        engine = self._opened()
        watchdog = Watchdog(lambda: engine.pulse, floor=self._hang_seconds)
        hung = asyncio.create_task(watchdog.watch(lambda: self._report(watchdog)))
        failed = asyncio.create_task(self._failed.wait())
        try:
            await asyncio.wait([hung, failed], return_when=asyncio.FIRST_COMPLETED)
            return ExitCode.ENGINE_FAILED if failed.done() else ExitCode.ENGINE_HUNG
        finally:
            hung.cancel()
            failed.cancel()

    async def close(self) -> None:
        """Close the engine, if there is one; afterwards another can be opened."""
        if self.engine is not None:
            await asyncio.to_thread(self.engine.close)
            self.engine = None

    async def _open(self, open_engine: Callable[[OnFailure], EngineT]) -> EngineT:
        """Open on a daemon thread: unlike an executor's thread, it does not delay the end of the process."""
        failed, future, opened = asyncio.Event(), Future[None](), list[EngineT]()
        future.set_running_or_notify_cancel()  # the waiting task may be cancelled; the thread cannot be stopped

        def run() -> None:
            try:
                opened.append(open_engine(lambda: self._fail(failed)))
                future.set_result(None)
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="load", daemon=True).start()
        await asyncio.wrap_future(future)
        # The future is in a reference cycle, so it must not refer to the engine: the engine is freed when closed.
        self.engine, self._failed = opened.pop(), failed
        return self.engine

    def _opened(self) -> EngineT:
        assert self.engine is not None
        return self.engine

    def _fail(self, failed: asyncio.Event) -> None:
        self._loop.call_soon_threadsafe(failed.set)

    async def _report(self, watchdog: Watchdog) -> None:
        if watchdog.is_late:
            await self._availability.obstruct(_LATE)
        else:
            await self._availability.clear(_LATE)
