"""ZMQ messages: batches of KV events as vLLM 0.26 encodes them (vllm/distributed/kv_events.py), by MessagePack."""

from collections.abc import Sequence as Seq

import msgspec

from services.engine.cache.cache_journal import CacheEvent, Removed, Stored
from services.target.kv_events.follow import MEDIA, Followed, adapter_and_salt, runs

_NUMBER_BYTES = 8
END = (-1).to_bytes(_NUMBER_BYTES, "big", signed=True)
"""The number after the last batch that is sent again."""


class BlockStored(msgspec.Struct, tag=True, omit_defaults=True):
    """The fields of vLLM, which has keys of the blocks' hashes beside their tokens: adapter and salt."""

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[list[str] | None] | None = None


class BlockRemoved(msgspec.Struct, tag=True, omit_defaults=True):
    """The fields of vLLM."""

    block_hashes: list[int]
    medium: str | None


class AllBlocksCleared(msgspec.Struct, tag=True):
    """Has no fields."""


class KVEventBatch(msgspec.Struct, array_like=True):
    """An array, while its events are maps."""

    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int = 0


def number_bytes(number: int) -> bytes:
    """Write a batch's number."""
    return number.to_bytes(_NUMBER_BYTES, "big")


def read_number(data: bytes) -> int | None:
    """Read a batch's number; None if it is none."""
    return int.from_bytes(data, "big") if len(data) == _NUMBER_BYTES else None


def encode(batch: Followed) -> bytes:
    """Write a batch's events; hashes have no sign here."""
    return msgspec.msgpack.encode(KVEventBatch(batch.time, [_event(run) for run in runs(batch.events)]))


def _event(run: Seq[CacheEvent]) -> BlockStored | BlockRemoved | AllBlocksCleared:
    match run[0]:
        case Stored() as first:
            return _stored(first, [each for each in run if isinstance(each, Stored)])
        case Removed() as first:
            hashes = [_unsigned(each.hash) for each in run if isinstance(each, Removed)]
            return BlockRemoved(hashes, MEDIA[first.medium])
    return AllBlocksCleared()


def _stored(first: Stored, run: Seq[Stored]) -> BlockStored:
    adapter, salt = adapter_and_salt(first)
    keys = [[key for key in (adapter, salt if each.parent is None else None) if key] or None for each in run]
    return BlockStored(
        block_hashes=[_unsigned(each.hash) for each in run],
        parent_block_hash=None if first.parent is None else _unsigned(first.parent),
        token_ids=[token_id for each in run for token_id in each.token_ids],
        block_size=len(first.token_ids),
        lora_id=None,
        medium=MEDIA[first.medium],
        lora_name=adapter,
        extra_keys=keys if any(keys) else None,
    )


def _unsigned(number: int) -> int:
    return number & (1 << 64) - 1
