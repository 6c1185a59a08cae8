"""KV events: writes what follows the prefix cache as the contract's batches."""

from collections.abc import Callable
from collections.abc import Sequence as Seq

from services.engine.cache.cache_journal import CacheEvent, Medium, Removed, Stored
from services.target.kv_events.follow import Followed, adapter_and_salt, runs
from services.target.openengine.v1 import openengine_pb2

_MEDIA = {
    Medium.DEVICE: openengine_pb2.STORAGE_MEDIUM_GPU,  # whatever the device is, as in vLLM's events
    Medium.HOST: openengine_pb2.STORAGE_MEDIUM_CPU_PINNED,
    Medium.DISK: openengine_pb2.STORAGE_MEDIUM_DISK,
}
_ENCODING = "decimal_int64"  # the one that Dynamo's sidecar reads (ai-dynamo/dynamo at 0cc34d9, openengine/src/kv.rs)


def write_batch(batch: Followed, lora_id: Callable[[str], int]) -> openengine_pb2.SubscribeKvEventsResponse:
    """Write a batch; `lora_id` numbers adapters."""
    written = openengine_pb2.KvEventBatch(
        sequence_number=batch.number,
        timestamp_unix_nanos=round(batch.time * 1e9),
        events=[_write(run, lora_id) for run in runs(batch.events)],
    )
    return openengine_pb2.SubscribeKvEventsResponse(batch=written)


def _write(run: Seq[CacheEvent], lora_id: Callable[[str], int]) -> openengine_pb2.KvEvent:
    match run[0]:
        case Stored() as first:
            return openengine_pb2.KvEvent(
                block_stored=_stored(first, [each for each in run if isinstance(each, Stored)], lora_id)
            )
        case Removed() as first:
            hashes = [_hash(each.hash) for each in run if isinstance(each, Removed)]
            removed = openengine_pb2.BlockRemoved(block_hashes=hashes, medium=_MEDIA[first.medium])
            return openengine_pb2.KvEvent(block_removed=removed)
    return openengine_pb2.KvEvent(all_blocks_cleared=openengine_pb2.AllBlocksCleared())


def _stored(first: Stored, run: Seq[Stored], lora_id: Callable[[str], int]) -> openengine_pb2.BlockStored:
    """Write blocks without their salt, which is in their hashes: that sidecar refuses keys that it does not know."""
    adapter, _ = adapter_and_salt(first)
    return openengine_pb2.BlockStored(
        block_hashes=[_hash(each.hash) for each in run],
        parent_block_hash=None if first.parent is None else _hash(first.parent),
        token_ids=[token_id for each in run for token_id in each.token_ids],
        block_size=len(first.token_ids),
        lora_id=lora_id(adapter) if adapter else 0,
        lora_name=adapter or "",
        medium=_MEDIA[first.medium],
    )


def _hash(number: int) -> openengine_pb2.KvBlockHash:
    return openengine_pb2.KvBlockHash(value=str(number).encode(), encoding=_ENCODING)
