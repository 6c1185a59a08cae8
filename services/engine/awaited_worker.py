"""AwaitedWorker: a WorkerProcess for an event loop, with cancellation of calls that are no longer awaited."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from services.engine.worker_process import WorkerLimits, WorkerProcess

Value = TypeVar("Value")


class AwaitedWorker:
    """Answers one question at a time, on a thread of its own; the process starts with the first question.

    Call it on one event loop; its thread and process end with it.
    """

    def __init__(self, module: str, setup: object, limits: WorkerLimits, *, grace_seconds: float) -> None:
        """A cancelled call has `grace_seconds` to finish before its process is killed: a new one is slow to start."""
        self._module, self._setup, self._limits = module, setup, limits
        self._grace_seconds = grace_seconds
        self._thread = ThreadPoolExecutor(1, "worker")
        self._turn = asyncio.Lock()
        self._process: WorkerProcess | None = None

    async def call(self, question: object, read: Callable[[object], Value]) -> Value:
        """Return what `read` makes of the answer; both run off the event loop. Raises WorkerError.

        On cancellation it raises CancelledError only when the thread is free again.
        """
        async with self._turn:
            self._process = process = self._process or WorkerProcess(self._module, self._setup, self._limits)
            loop = asyncio.get_running_loop()
            asking = loop.run_in_executor(self._thread, lambda: read(process.call(question)))
            try:
                return await asyncio.shield(asking)
            except asyncio.CancelledError:
                await asyncio.wait([asking], timeout=self._grace_seconds)
                if not asking.done():
                    process.interrupt()
                    self._process = None  # an interruption just after its answer would end the next call
                await asyncio.gather(asking, return_exceptions=True)
                raise
