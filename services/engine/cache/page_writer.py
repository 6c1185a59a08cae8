"""PageWriter: runs writes in the background, one after the other on a thread of its own."""

import threading
from collections.abc import Callable
from queue import Queue


class PageWriter:
    """Its queue is bounded: its only caller must not add a write while `is_full` (backpressure)."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._queue: Queue[Callable[[], None] | None] = Queue()
        self._thread = threading.Thread(target=self._run, name="kv-pages", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether no further write may be added now."""
        return self._queue.qsize() >= self._most_waiting

    def add(self, write: Callable[[], None]) -> None:
        """Queue a write, which must not raise; not to be called while full."""
        self._queue.put(write)

    def flush(self) -> None:
        """Wait for all writes that were added."""
        self._queue.join()

    def close(self) -> None:
        """Finish all writes that were added, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (write := self._queue.get()) is not None:
            write()
            self._queue.task_done()
        self._queue.task_done()
