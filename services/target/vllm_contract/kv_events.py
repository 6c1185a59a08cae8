"""KV events: writes what follows the prefix cache as the contract's batches."""

from collections.abc import Sequence as Seq

from smg_grpc_proto.generated import common_pb2

from services.engine.cache.cache_journal import CacheEvent, Medium, Removed, Stored
from services.target.kv_events.follow import MEDIA, Followed, adapter_and_salt, runs

_TIERS = {
    Medium.DEVICE: common_pb2.KV_CACHE_TIER_DEVICE,
    Medium.HOST: common_pb2.KV_CACHE_TIER_HOST,
    Medium.DISK: common_pb2.KV_CACHE_TIER_DISK,
}


def write_batch(batch: Followed) -> common_pb2.KvEventBatch:
    """Write a batch; the events of a snapshot have no ids of their own."""
    first = 0 if batch.part else 1
    events = [_write(run, first and number) for number, run in enumerate(runs(batch.events), first)]
    snapshot = None
    if batch.part:
        number, num_parts, num_blocks = batch.part
        snapshot = common_pb2.KvSnapshotChunk(index=number, count=num_parts, blocks=num_blocks)
    return common_pb2.KvEventBatch(
        sequence_number=batch.number, timestamp=batch.time, events=events, dp_rank=0, snapshot=snapshot
    )


def _write(run: Seq[CacheEvent], number: int) -> common_pb2.KvCacheEvent:
    match run[0]:
        case Stored() as first:
            adapter, salt = adapter_and_salt(first)
            blocks = [
                common_pb2.KvBlock(block_hash=each.hash, token_ids=each.token_ids, block_size=len(each.token_ids))
                for each in run
                if isinstance(each, Stored)
            ]
            stored = common_pb2.KvBlocksStored(
                blocks=blocks,
                parent_block_hash=first.parent,
                tier=_TIERS[first.medium],
                medium=MEDIA[first.medium],
                locality=common_pb2.KV_CACHE_LOCALITY_LOCAL,
                lora_name=adapter,
                cache_salt=salt,
            )
            return common_pb2.KvCacheEvent(event_id=number, stored=stored)
        case Removed() as first:
            hashes = [each.hash for each in run if isinstance(each, Removed)]
            removed = common_pb2.KvBlocksRemoved(
                block_hashes=hashes, tier=_TIERS[first.medium], medium=MEDIA[first.medium]
            )
            return common_pb2.KvCacheEvent(event_id=number, removed=removed)
    return common_pb2.KvCacheEvent(event_id=number, cleared=common_pb2.KvCacheCleared())
