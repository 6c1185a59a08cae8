"""DiskPages: a page store in a file that the next process can read."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import Queue
from typing import TypeVar

import numpy as np

from services.engine.cache.cache_journal import CacheJournal
from services.engine.cache.page_file import PageFile
from services.engine.cache.page_index import PageIndex
from services.engine.cache.page_key import PageKey
from services.engine.cache.page_store import Page

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_MOST_WAITING = 256 << 20  # bytes: a long prompt evicts many blocks at once


class DiskPages:
    """A PageStore that writes on a thread of its own. After the first error of the disk it holds nothing any more."""

    def __init__(self, file: PageFile, *, most_waiting: int = _MOST_WAITING) -> None:
        """It starts with the pages of an earlier process; at most `most_waiting` bytes may wait to be written."""
        self.problem = ""
        self.num_slots, self.page_bytes = file.num_slots, file.page_bytes
        self.num_dropped = 0
        self._file = file
        self._writer = PageWriter(max(1, most_waiting // file.page_bytes))
        self._waiting: dict[int, Page] = {}  # to be written, by their slots
        self._lock = threading.Lock()
        found = self._try(file.load) or []
        self._num_written = found[-1][0] if found else 0
        self._index = PageIndex(file.num_slots, {key: slot for _, slot, key in found})

    @property
    def num_pages(self) -> int:
        """The number of pages that it holds."""
        return 0 if self.problem else len(self._index)

    def report_to(self, journal: CacheJournal) -> None:
        """Note in this journal each page that is held or dropped."""
        self._index.journal = journal

    def put(self, key: PageKey, fill: Callable[[Page], None]) -> bool:
        """Add a page, unless it is held already or too many wait to be written; returns whether it was added."""
        if self.problem or self._index.renew(key):
            return False
        if self._writer.is_full:
            self.num_dropped += 1
            return False
        page = np.empty(self.page_bytes, np.uint8)
        fill(page)
        slot = self._index.add(key)
        self._num_written += 1
        with self._lock:
            self._waiting[slot] = page
        self._writer.add(partial(self._write, self._num_written, slot, key, page, self._file.epoch))
        return True

    def has(self, key: PageKey) -> bool:
        """Return whether it holds a page; the page may be damaged."""
        return not self.problem and self._index.find(key) is not None

    def get(self, key: PageKey) -> Page | None:
        """Return a page, or None if it is not held or is damaged."""
        if self.problem or (slot := self._index.find(key)) is None:
            return None
        with self._lock:
            page = self._waiting.get(slot)
        if page is None and (page := self._try(lambda: self._file.read(slot, key))) is None:
            self.num_dropped += 1
            self._index.remove(key)
        return page

    def clear(self) -> None:
        """Remove all pages, also for later processes; pages that still wait to be written will not be valid."""
        self._index.clear()
        with self._lock:
            self._waiting.clear()
        self._try(self._file.empty)

    def flush(self) -> None:
        """Wait until all pages are written."""
        self._writer.flush()

    def close(self) -> None:
        """Write the waiting pages, and release the file for another process."""
        self._writer.close()
        self._file.close()

    def _write(self, number: int, slot: int, key: PageKey, page: Page, epoch: bytes) -> None:
        """Write a page; runs on the writer's thread."""
        if not self.problem:
            self._try(lambda: self._file.write(number, slot, key, page, epoch))
        with self._lock:
            if self._waiting.get(slot) is page:
                del self._waiting[slot]

    def _try(self, work: Callable[[], Result]) -> Result | None:
        try:
            return work()
        except OSError as error:
            self.problem = str(error)
            logger.warning("KV pages are kept on disk no longer: %s: %s", self._file.path, error)
            return None


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
