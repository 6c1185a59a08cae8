"""JournalReader: the journal of an engine's prefix cache, as it is seen where requests are served."""

import asyncio
from collections.abc import Callable
from collections.abc import Sequence as Seq
from concurrent.futures import Future
from typing import Protocol

from services.engine.cache.cache_journal import CacheBatch, CacheJournal, SnapshotFacts, Stored

Ask = Callable[[Callable[[], SnapshotFacts]], Future[SnapshotFacts]]


class JournalReader(Protocol):
    """Its methods are for an event loop; those that say so raise EventsLostError."""

    async def read(self, after: int, seconds: float) -> Seq[CacheBatch]:
        """Return the next batches after that number, waiting so long for the first; raises EventsLostError."""

    async def last(self) -> int:
        """Return the number of the last batch."""

    async def begin_snapshot(self) -> SnapshotFacts:
        """Begin a snapshot, whose parts are read in their order."""

    async def part(self, last: int, index: int) -> Seq[Stored]:
        """Return a part of the snapshot with that last number; raises EventsLostError."""

    def end_snapshot(self, last: int) -> None:
        """Forget a snapshot that is not read on."""


class OwnJournalReader:
    """For an engine in this process."""

    def __init__(self, journal: CacheJournal, ask: Ask) -> None:
        """`ask` runs a function on the engine thread."""
        self._journal, self._ask = journal, ask

    async def read(self, after: int, seconds: float) -> Seq[CacheBatch]:
        """Return the next batches after that number; raises EventsLostError."""
        return await self._journal.read(after, seconds)

    async def last(self) -> int:
        """Return the number of the last batch."""
        return self._journal.last

    async def begin_snapshot(self) -> SnapshotFacts:
        """Begin a snapshot, between two steps."""
        return await asyncio.wrap_future(self._ask(self._journal.begin_snapshot))

    async def part(self, last: int, index: int) -> Seq[Stored]:
        """Return a part of the snapshot; the first one puts all in order, which may take long."""
        if index > 0:
            return self._journal.part(last, index)
        return await asyncio.to_thread(self._journal.part, last, index)

    def end_snapshot(self, last: int) -> None:
        """Forget a snapshot that is not read on."""
        self._journal.end_snapshot(last)
