"""PageWriter: writes that nobody waits for, one after the other on a thread of their own."""

import threading
from collections.abc import Callable
from queue import Queue


class PageWriter:
    """Its queue is bounded; what does not fit is for the caller, the only one, to leave."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._queue: Queue[Callable[[], None] | None] = Queue()
        self._thread = threading.Thread(target=self._run, name="kv-pages", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether one more write has to be left."""
        return self._queue.qsize() >= self._most_waiting

    def add(self, write: Callable[[], None]) -> None:
        """Have something written, which must not raise; not to be called when full."""
        self._queue.put(write)

    def flush(self) -> None:
        """Wait for all that was added."""
        self._queue.join()

    def close(self) -> None:
        """Write all that was added, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (write := self._queue.get()) is not None:
            write()
            self._queue.task_done()
        self._queue.task_done()
