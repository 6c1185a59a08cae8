"""KV events: writes the journal of the prefix cache as the contract's batches."""

import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import aclosing

from smg_grpc_proto.generated import common_pb2

from services.engine.cache.cache_journal import (
    CacheBatch,
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

_WAIT_SECONDS = 1.0  # between two looks at whether the server is ending
_TIERS = {
    Medium.DEVICE: (common_pb2.KV_CACHE_TIER_DEVICE, "GPU"),  # the words of vLLM, whatever the device is
    Medium.HOST: (common_pb2.KV_CACHE_TIER_HOST, "CPU"),
    Medium.DISK: (common_pb2.KV_CACHE_TIER_DISK, "STORAGE"),
}


async def follow(journal: JournalReader, start: int) -> AsyncGenerator[common_pb2.KvEventBatch | None, None]:
    """Yield the batches from that number on, or for 0 a snapshot and those after it.

    Yields None now and then while there are none. Raises RangeError if the number is not known any more, or not yet,
    and SubscriberLostError if batches are gone before they are read.
    """
    last = start - 1
    if start == 0:
        async with aclosing(_snapshot(journal)) as chunks:
            async for chunk in chunks:
                yield chunk
                last = chunk.sequence_number
    is_first = start > 0
    while True:
        try:
            batches = await journal.read(last, 0 if is_first else _WAIT_SECONDS)
        except EventsLostError as error:
            if is_first:
                raise RangeError(f"start_sequence_number {start} is not known here: subscribe from 0 on") from error
            raise SubscriberLostError(f"events after number {last} are not kept any more: subscribe again") from error
        is_first = False
        for batch in batches:
            yield _write_batch(batch)
            last = batch.number
        yield None


async def _snapshot(journal: JournalReader) -> AsyncGenerator[common_pb2.KvEventBatch, None]:
    """Yield the chunks of a snapshot; raises SubscriberLostError if there are too many at once."""
    facts = await journal.begin_snapshot()
    try:
        for number in range(facts.first, facts.last + 1):
            yield _write_part(facts, number, await journal.part(facts.last, number - facts.first))
    except EventsLostError as error:
        raise SubscriberLostError("the snapshot is not kept any more: subscribe again") from error
    finally:
        journal.end_snapshot(facts.last)


def _write_batch(batch: CacheBatch) -> common_pb2.KvEventBatch:
    events = [_write(part, number) for number, part in enumerate(_parts(batch.events), 1)]
    return common_pb2.KvEventBatch(sequence_number=batch.number, timestamp=batch.time, events=events, dp_rank=0)


def _write_part(facts: SnapshotFacts, number: int, blocks: Seq[Stored]) -> common_pb2.KvEventBatch:
    """Write a chunk; the first one clears what was known before."""
    index = number - facts.first
    parts = _parts([*([Cleared()] if index == 0 else []), *blocks])
    return common_pb2.KvEventBatch(
        sequence_number=number,
        timestamp=time.time(),
        events=[_write(part, 0) for part in parts],
        dp_rank=0,
        snapshot=common_pb2.KvSnapshotChunk(index=index, count=facts.last + 1 - facts.first, blocks=facts.num_blocks),
    )


def _parts(events: Iterable[CacheEvent]) -> Iterator[list[CacheEvent]]:
    """Yield runs of events that one of the contract's tells: a text's blocks in turn, or removals from a medium."""
    part: list[CacheEvent] = []
    for event in events:
        if part and not _continues(part[-1], event):
            yield part
            part = []
        part.append(event)
    if part:
        yield part


def _continues(before: CacheEvent, event: CacheEvent) -> bool:
    match before, event:
        case Stored(), Stored():
            return event.parent == before.hash and event.medium is before.medium
        case Removed(), Removed():
            return event.medium is before.medium
    return False


def _write(part: Seq[CacheEvent], number: int) -> common_pb2.KvCacheEvent:
    match part[0]:
        case Stored() as first:
            adapter, _, salt = first.scope.partition("\0")
            blocks = [
                common_pb2.KvBlock(block_hash=each.hash, token_ids=each.token_ids, block_size=len(each.token_ids))
                for each in part
                if isinstance(each, Stored)
            ]
            tier, medium = _TIERS[first.medium]
            stored = common_pb2.KvBlocksStored(
                blocks=blocks,
                parent_block_hash=first.parent,
                tier=tier,
                medium=medium,
                locality=common_pb2.KV_CACHE_LOCALITY_LOCAL,
                lora_name=adapter.rpartition(" ")[0] or None,
                cache_salt=salt or None,
            )
            return common_pb2.KvCacheEvent(event_id=number, stored=stored)
        case Removed() as first:
            tier, medium = _TIERS[first.medium]
            hashes = [each.hash for each in part if isinstance(each, Removed)]
            removed = common_pb2.KvBlocksRemoved(block_hashes=hashes, tier=tier, medium=medium)
            return common_pb2.KvCacheEvent(event_id=number, removed=removed)
    return common_pb2.KvCacheEvent(event_id=number, cleared=common_pb2.KvCacheCleared())
