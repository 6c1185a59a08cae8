"""follow: the journal of the prefix cache, from a number or a snapshot on."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

from services.engine.cache.cache_journal import (
    CacheEvent,
    Cleared,
    EventsLostError,
    Medium,
    Removed,
    SnapshotFacts,
    Stored,
)
from services.service.errors import RangeError, SubscriberLostError
from services.target.generation.journal_reader import JournalReader

_WAIT_SECONDS = 1.0
MEDIA = {Medium.DEVICE: "GPU", Medium.HOST: "CPU", Medium.DISK: "STORAGE"}
"""The words of vLLM, whatever the device is."""


class SnapshotPart(NamedTuple):
    """Which part of a snapshot it is, from 0 on."""

    number: int
    num_parts: int
    num_blocks: int  # of the whole snapshot


class Followed(NamedTuple):
    """The events with one number; those of a snapshot's first part clear what was known before."""

    number: int
    time: float  # seconds since 1970
    events: Seq[CacheEvent]
    part: SnapshotPart | None = None


async def follow(journal: JournalReader, start: int | None) -> AsyncGenerator[Followed | None, None]:
    """Yield the batches from that number on, for 0 a snapshot and those after it, for None those to come.

    Yields None when there are no more, and each second until there are. Raises RangeError if the number is not known
    any more, or not yet, and SubscriberLostError if batches are gone before they are read.
    """
    last = await journal.last() if start is None else start - 1
    is_first = True
    if start == 0:
        async with aclosing(_snapshot(journal)) as parts:
            async for part in parts:
                yield part
                last = part.number
    while True:
        try:
            batches = await journal.read(last, 0 if is_first else _WAIT_SECONDS)
        except EventsLostError as error:
            if is_first and start:
                raise RangeError(f"start_sequence_number {start} is not known here: subscribe from 0 on") from error
            raise SubscriberLostError(f"events after number {last} are not kept any more: subscribe again") from error
        is_first = False
        for batch in batches:
            yield Followed(batch.number, batch.time, batch.events)
            last = batch.number
        if not batches:
            yield None


async def _snapshot(journal: JournalReader) -> AsyncGenerator[Followed, None]:
    """Yield the parts of a snapshot; raises SubscriberLostError if there are too many at once."""
    facts = await _begun(journal)
    count = facts.last + 1 - facts.first
    try:
        for index in range(count):
            blocks = await journal.part(facts.last, index)
            events: list[CacheEvent] = [*blocks] if index else [Cleared(), *blocks]
            yield Followed(facts.first + index, time.time(), events, SnapshotPart(index, count, facts.num_blocks))
    except EventsLostError as error:
        raise SubscriberLostError("the snapshot is not kept any more: subscribe again") from error
    finally:
        journal.end_snapshot(facts.last)


async def _begun(journal: JournalReader) -> SnapshotFacts:
    """Begin a snapshot, which is forgotten if nobody waits for it any more."""
    beginning = asyncio.ensure_future(journal.begin_snapshot())
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        beginning.add_done_callback(partial(_forget, journal))
        raise


def _forget(journal: JournalReader, begun: "asyncio.Future[SnapshotFacts]") -> None:
    if not begun.cancelled() and begun.exception() is None:
        journal.end_snapshot(begun.result().last)


def runs(events: Iterable[CacheEvent]) -> Iterator[list[CacheEvent]]:
    """Yield events of one kind that routers get as one: a text's blocks in turn, or removals from a medium."""
    run: list[CacheEvent] = []
    for event in events:
        if run and not _continues(run[-1], event):
            yield run
            run = []
        run.append(event)
    if run:
        yield run


def _continues(before: CacheEvent, event: CacheEvent) -> bool:
    match before, event:
        case Stored(), Stored():
            return event.parent == before.hash and event.medium is before.medium
        case Removed(), Removed():
            return event.medium is before.medium
    return False


def adapter_and_salt(stored: Stored) -> tuple[str | None, str | None]:
    """Return the adapter's name and the salt of a block's scope."""
    adapter, _, salt = stored.scope.partition("\0")
    return adapter.rpartition(" ")[0] or None, salt or None
