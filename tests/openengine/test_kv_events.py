"""The contract's events of the KV cache: an index that is built from them alone is the cache's own."""

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import grpc
import pytest

from services.engine.cache import cache_journal
from services.engine.cache.cache_journal import CacheEvent, Cleared, Medium, Removed, Stored
from services.service.access.caller import Scope
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from services.target.openengine.v1 import openengine_pb2
from tests.harness.cache_index import CacheIndex, cached_texts
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.openengine.asking import control
from tests.rpc.harness.requests import violations
from tests.vllm_contract.cache_work import generate, journal_of, work

_MEDIA = {
    openengine_pb2.STORAGE_MEDIUM_GPU: Medium.DEVICE,
    openengine_pb2.STORAGE_MEDIUM_CPU_PINNED: Medium.HOST,
    openengine_pb2.STORAGE_MEDIUM_DISK: Medium.DISK,
}


def number_of(told: openengine_pb2.KvBlockHash) -> int:
    assert told.encoding == "decimal_int64"
    assert told.value == str(int(told.value)).encode()
    return int(told.value)


def events_of(batch: openengine_pb2.KvEventBatch) -> Iterator[CacheEvent]:
    """A batch's events, as the journal has them, with adapters' names for scopes."""
    for event in batch.events:
        match event.WhichOneof("event"):
            case "block_stored":
                told = event.block_stored
                parent = number_of(told.parent_block_hash) if told.HasField("parent_block_hash") else None
                assert len(told.token_ids) == told.block_size * len(told.block_hashes)
                assert bool(told.lora_name) == bool(told.lora_id)
                assert not told.extra_keys
                for at, block_hash in enumerate(told.block_hashes):
                    tokens = (*told.token_ids[at * told.block_size : (at + 1) * told.block_size],)
                    yield Stored(number_of(block_hash), parent, tokens, told.lora_name, _MEDIA[told.medium])
                    parent = number_of(block_hash)
            case "block_removed":
                for block_hash in event.block_removed.block_hashes:
                    yield Removed(number_of(block_hash), _MEDIA[event.block_removed.medium])
            case "all_blocks_cleared":
                yield Cleared()


class Subscriber:
    """Reads in a thread of its own, and keeps an index."""

    def __init__(self, target: RunningTarget, metadata: Any = None, **fields: Any) -> None:
        """By default from a snapshot on."""
        self.index, self.batches = CacheIndex(), SimpleQueue[openengine_pb2.KvEventBatch]()
        self.failures: list[openengine_pb2.EngineError] = []
        self.status = ""
        self.last = 0
        request = openengine_pb2.SubscribeKvEventsRequest(**(fields or {"include_snapshot": True}))
        self._keeps_index = request.include_snapshot
        self.call = control(target).SubscribeKvEvents(request, timeout=120, metadata=metadata)
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            for response in self.call:
                assert not self.failures
                if response.HasField("error"):
                    self.failures.append(response.error)
                else:
                    self._take(response.batch)
            self.status = "OK"
        except grpc.RpcError as error:
            self.status = error.code().name

    def _take(self, batch: openengine_pb2.KvEventBatch) -> None:
        assert self.last in (0, batch.sequence_number - 1), "a gap"
        assert batch.timestamp_unix_nanos > 0 == batch.data_parallel_rank
        if self._keeps_index:
            self.index.apply(events_of(batch))
        self.last = batch.sequence_number
        self.batches.put(batch)

    def join(self) -> str:
        """Wait for the end, and return the name of its status."""
        self._thread.join()
        return self.status

    def leave(self) -> None:
        self.call.cancel()
        self._thread.join()


def is_as_it_is(index: CacheIndex, target: RunningTarget) -> bool:
    """Whether it has the cache's texts, by adapter: salts are not sent."""
    found = target.on_engine_thread(lambda: cached_texts(target.engine.blocks))
    return index.texts() == {(scope.partition("\0")[0].rpartition(" ")[0], tokens) for scope, tokens in found}


@pytest.mark.parametrize("offload", [None, 1 << 16], ids=["without offload", "with offload"])
def test_an_index_of_events_alone_is_the_caches_own(model: Path, loras: dict[str, Path], offload: int | None) -> None:
    settings: dict[str, Any] = {"kv_blocks": 16, "kv_offload_memory": offload, "loras": loras, "vllm_contract": False}
    with target_server(model, kv_events=True, **settings) as target:
        generate(target, "what was there before the subscriber came " * 3)
        subscriber = Subscriber(target)
        work(target)
        wait_until(lambda: is_as_it_is(subscriber.index, target))
        assert subscriber.index.texts()
        assert bool(subscriber.index.hashes(Medium.HOST)) == (offload is not None)
        target.engine.forget_cache().result()
        wait_until(lambda: not subscriber.index.copies)
        work(target)
        wait_until(lambda: is_as_it_is(subscriber.index, target))
        subscriber.leave()


@pytest.mark.parametrize("own_process", [False, True])
def test_without_a_snapshot_only_what_is_next_comes(model: Path, own_process: bool) -> None:
    with target_server(model, kv_events=True, own_process=own_process) as target:
        generate(target, "what was there before the subscriber came " * 3)
        subscriber = Subscriber(target, include_snapshot=False)
        [*subscriber.call.initial_metadata()]
        subscribed = Subscriber(target)  # its snapshot's numbers are the first batches of the other one
        subscribed.batches.get(timeout=60)
        subscriber.batches.get(timeout=60)
        generate(target, "and what is new " * 6)
        while not (batch := subscriber.batches.get(timeout=60)).events:
            pass
        (event, *_) = events_of(batch)
        assert isinstance(event, Stored)
        assert event.parent is None
        again = Subscriber(target, start_sequence_number=batch.sequence_number)
        assert again.batches.get(timeout=60) == batch
        for each in (subscriber, subscribed, again):
            each.leave()


def test_what_cannot_be_followed_is_named(model: Path, target: RunningTarget) -> None:
    assert Subscriber(target).join() == "UNIMPLEMENTED"
    with target_server(model, kv_events=True) as told:
        for fields, field, said in (
            ({"include_snapshot": True, "start_sequence_number": 3}, "start_sequence_number", "is 3; allowed: 0 with"),
            ({"data_parallel_ranks": [1]}, "data_parallel_ranks[0]", "is 1; allowed: 0"),
        ):
            with pytest.raises(grpc.RpcError) as failure:
                list(control(told).SubscribeKvEvents(openengine_pb2.SubscribeKvEventsRequest(**fields), timeout=60))
            assert violations(failure.value)[field].startswith(said)


def test_a_failure_is_the_last_event(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_journal, "_MOST_EVENTS", 4)
    with target_server(model, kv_events=True, kv_blocks=8) as target:
        unknown = Subscriber(target, start_sequence_number=17)
        assert unknown.join() == "OK"
        (error,) = unknown.failures
        assert (error.retryable, "subscribe from 0 on" in error.message) == (False, True)
        subscriber = Subscriber(target)
        subscriber.batches.get(timeout=60)
        journal = journal_of(target)
        wait_until(lambda: journal._waiting)

        target.on_engine_thread(lambda: journal._add([(Cleared(),)] * 10))  # more than are kept, at once
        assert subscriber.join() == "OK"
        (error,) = subscriber.failures
        assert "not kept any more" in error.message
        unloaded = Subscriber(target)
        unloaded.batches.get(timeout=60)
        target.call(target.model.close())
        assert unloaded.join() == "OK"
        (error,) = unloaded.failures
        assert error.retryable
        assert Subscriber(target).join() == "UNAVAILABLE"


def test_events_need_a_scope_of_their_own(model: Path, tmp_path: Path) -> None:
    made = [
        new_token(name, scopes) for name, scopes in (("a", [Scope.GENERATE, Scope.ADMIN]), ("b", [Scope.KV_EVENTS]))
    ]
    (tmp_path / "tokens").write_text("".join(f"{line}\n" for _, line in made))
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tmp_path / "tokens")
    with target_server(model, server=config, kv_events=True) as target:
        others, router = ([("authorization", f"Bearer {token}")] for token, _ in made)
        assert Subscriber(target, metadata=others).join() == "PERMISSION_DENIED"
        subscriber = Subscriber(target, metadata=router)
        subscriber.batches.get(timeout=60)
        subscriber.leave()
