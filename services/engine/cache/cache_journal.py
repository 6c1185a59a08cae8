"""CacheJournal: what the prefix cache stores and removes, in numbered batches that others may follow."""

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from services.engine.cache.page_key import Key, PageKey, next_digest, scope_digest

_MOST_EVENTS = 1 << 16  # that are kept for those who have not read them yet
_BATCH_EVENTS = 1 << 10  # at most, so that a message has a moderate size
_READ_EVENTS = 1 << 12  # that are returned at once, about
_PART_BLOCKS = 128  # of a snapshot
_MOST_SNAPSHOTS = 16  # that are being read
_HASH_BYTES = 8
_BITS = 20  # more batches than are made in a second: so numbers of a later process are above all of an earlier one


class Medium(StrEnum):
    """Where the keys and values of a block are."""

    DEVICE = "device"
    HOST = "host"
    DISK = "disk"


class Stored(NamedTuple):
    """A block can be found by its tokens and those before it."""

    hash: int  # of the scope and of all tokens up to the block's end, 64 bits with a sign
    parent: int | None  # the hash of the block before; None for the first one of a text
    token_ids: tuple[int, ...]
    scope: str  # only requests of it find the block
    medium: Medium


class Removed(NamedTuple):
    """A block is not in this medium any more."""

    hash: int
    medium: Medium


class Cleared(NamedTuple):
    """No block can be found any more."""


CacheEvent = Stored | Removed | Cleared


class CacheBatch(NamedTuple):
    """Events of a step, in their order; each batch has the number after the last one's."""

    number: int
    time: float  # seconds since 1970
    events: tuple[CacheEvent, ...]
    end: int = 0  # the last number of the snapshot whose part has this number, which others need not read


class SnapshotFacts(NamedTuple):
    """The numbers of a snapshot's parts; all batches after them follow it."""

    first: int
    last: int
    num_blocks: int


class EventsLostError(Exception):
    """What was asked for is not kept any more, or is of another process."""

    def __init__(self, after: int) -> None:
        super().__init__(after)
        self.after = after


class _Found(NamedTuple):
    digest: bytes
    stored: Stored


class CacheJournal:
    """Written on the engine thread. Readers keep their own place: one that is slow costs the engine nothing, and finds
    out that batches are gone.

    Pages that the offload holds from an earlier process are unknown until their blocks are evicted again.
    """

    def __init__(self, medium: Medium = Medium.HOST) -> None:
        """`medium` is that of evicted blocks, if they are kept."""
        self._medium = medium
        self._blocks: dict[int, _Found] = {}
        self._evicted = _Found(b"", Stored(0, None, (), "", Medium.DEVICE))
        self._pages: dict[PageKey, Stored] = {}  # that the offload holds
        self._pending: list[CacheEvent] = []
        self._lock = threading.Lock()
        self._number = int(time.time()) << _BITS
        self._batches: deque[CacheBatch] = deque()
        self._num_events = 0
        self._snapshots: OrderedDict[int, Seq[Stored]] = OrderedDict()  # by their last numbers
        self._waiting: list[asyncio.Future[None]] = []

    def store(self, key: Key, block: int) -> None:
        """Note that a block was added to the prefix cache; the one before it is there."""
        prefix, token_ids = key
        before = self._blocks[prefix] if isinstance(prefix, int) else None
        scope = before.stored.scope if before else str(prefix)
        digest = next_digest(before.digest if before else scope_digest(scope), token_ids)
        stored = Stored(_hash(digest), before and before.stored.hash, token_ids, scope, Medium.DEVICE)
        self._blocks[block] = _Found(digest, stored)
        self._pending.append(stored)

    def evict(self, block: int) -> None:
        """Note that a block was evicted; the offload may hold its page next."""
        self._evicted = self._blocks.pop(block)
        self._pending.append(Removed(self._evicted.stored.hash, Medium.DEVICE))

    def hold_page(self, key: PageKey) -> None:
        """Note that the offload holds this page, if it is that of the block that was evicted last, and no state's."""
        digest, stored = self._evicted
        if key == PageKey(digest, stored.token_ids) and key not in self._pages:
            self._pages[key] = stored._replace(medium=self._medium)
            self._pending.append(self._pages[key])

    def drop_page(self, key: PageKey) -> None:
        """Note that the offload holds this page no longer."""
        if (stored := self._pages.pop(key, None)) is not None:
            self._pending.append(Removed(stored.hash, stored.medium))

    def drop_pages(self) -> None:
        """Note that the offload holds no page any more."""
        for key in [*self._pages]:
            self.drop_page(key)

    def clear(self) -> None:
        """Note that the prefix cache was emptied; so is the offload then."""
        self._blocks.clear()
        self._pages.clear()
        self._pending.append(Cleared())

    def publish(self) -> None:
        """Let readers have what was noted since the last call."""
        if self._pending:
            pending, self._pending = self._pending, []
            self._add([tuple(pending[at : at + _BATCH_EVENTS]) for at in range(0, len(pending), _BATCH_EVENTS)])

    def _add(self, contents: Seq[tuple[CacheEvent, ...]], *, are_of_snapshot: bool = False) -> None:
        """Add batches with these events, and wake those who wait for them."""
        with self._lock:
            now, end = time.time(), self._number + len(contents) if are_of_snapshot else 0
            for events in contents:
                self._number += 1
                self._batches.append(CacheBatch(self._number, now, events, end))
                self._num_events += 1 + len(events)
            self._forget()
            waiting, self._waiting = self._waiting, []
        for future in waiting:
            with suppress(RuntimeError):  # its loop has been closed
                future.get_loop().call_soon_threadsafe(_end, future)

    def _forget(self) -> None:
        """Forget the oldest batches beyond so many events, and no snapshot's numbers but all."""
        is_amid = False
        while self._num_events > _MOST_EVENTS or is_amid:
            oldest = self._batches.popleft()
            self._num_events -= 1 + len(oldest.events)
            is_amid = oldest.end > oldest.number

    def begin_snapshot(self) -> SnapshotFacts:
        """Note what there is, to be read by `part`; for the engine thread.

        Its parts have numbers of their own, which are empty batches for others, so that a reader who has not got all of
        them cannot go on as if it had.
        """
        self.publish()
        blocks = [*(found.stored for found in self._blocks.values()), *self._pages.values()]
        count = max(1, -(-len(blocks) // _PART_BLOCKS))
        first = self._number + 1
        self._add([()] * count, are_of_snapshot=True)
        self._snapshots[self._number] = blocks
        if len(self._snapshots) > _MOST_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return SnapshotFacts(first, self._number, len(blocks))

    def part(self, last: int, index: int) -> Seq[Stored]:
        """Return some blocks of the snapshot whose last number that is, a block before those that follow it; for any
        thread, in the order of the parts. The last part ends it. Raises EventsLostError.
        """
        if (blocks := self._snapshots.get(last)) is None:
            raise EventsLostError(last)
        if index == 0:
            self._snapshots[last] = blocks = [*_in_order(blocks)]
        first = index * _PART_BLOCKS
        if first + _PART_BLOCKS >= len(blocks):
            self._snapshots.pop(last, None)
        return blocks[first : first + _PART_BLOCKS]

    def end_snapshot(self, last: int) -> None:
        """Forget a snapshot that is not read on."""
        self._snapshots.pop(last, None)

    @property
    def last(self) -> int:
        """The number of the last batch; for any thread."""
        return self._number

    async def read(self, after: int, seconds: float) -> list[CacheBatch]:
        """Return the next batches after that number, waiting so long for the first of them; for any event loop.

        Raises EventsLostError.
        """
        with self._lock:
            if after != self._number:
                return self._kept(after)
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
        with suppress(TimeoutError):
            try:
                await asyncio.wait_for(future, seconds)
            finally:
                with self._lock:
                    self._waiting = [each for each in self._waiting if each is not future]
        with self._lock:
            return self._kept(after)

    def _kept(self, after: int) -> list[CacheBatch]:
        place = after + 1 - (self._batches[0].number if self._batches else self._number + 1)
        if not 0 <= place <= len(self._batches) or (place > 0 and self._batches[place - 1].end > after):
            raise EventsLostError(after)
        batches: list[CacheBatch] = []
        num_events = 0
        for batch in islice(self._batches, place, None):
            if num_events >= _READ_EVENTS and not batch.end:
                break
            batches.append(batch)
            num_events += len(batch.events)
        return batches


def _in_order(blocks: Seq[Stored]) -> Iterator[Stored]:
    """Yield the copies of all blocks, each text's from its beginning."""
    copies: dict[int, list[Stored]] = {}
    for stored in blocks:
        copies.setdefault(stored.hash, []).append(stored)
    seen: set[int] = set()
    for first in copies:
        chain: list[list[Stored]] = []
        at: int | None = first
        while at is not None and at in copies and at not in seen:
            chain.append(copies[at])
            seen.add(at)
            at = copies[at][0].parent
        for each in reversed(chain):
            yield from each


def _hash(digest: bytes) -> int:
    return int.from_bytes(digest[:_HASH_BYTES], "little", signed=True)


def _end(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
