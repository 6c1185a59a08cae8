"""The contract's events of the KV cache: an index that is built from them alone is the cache's own."""

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import grpc
import pytest
from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2_grpc

from services.engine.cache import cache_journal
from services.engine.cache.cache_journal import CacheEvent, Cleared, Medium, Removed, Stored
from services.engine.config import ConfigError
from services.service.access.caller import Scope
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from services.target.contracts import subscribers
from tests.harness.cache_index import CacheIndex
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.vllm_contract.asking import contract_request, stub_of
from tests.vllm_contract.cache_work import generate, is_as_it_is, journal_of, tell_much, work

NARROW = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
_MEDIA = {
    common_pb2.KV_CACHE_TIER_DEVICE: Medium.DEVICE,
    common_pb2.KV_CACHE_TIER_HOST: Medium.HOST,
    common_pb2.KV_CACHE_TIER_DISK: Medium.DISK,
}


def events_of(batch: common_pb2.KvEventBatch) -> Iterator[CacheEvent]:
    """A batch's events, as the journal has them, with scopes of adapters' names and salts."""
    for event in batch.events:
        match event.WhichOneof("data"):
            case "stored":
                told = event.stored
                parent = told.parent_block_hash if told.HasField("parent_block_hash") else None
                for block in told.blocks:
                    scope = f"{told.lora_name}\0{told.cache_salt}"
                    assert block.block_size == len(block.token_ids)
                    yield Stored(block.block_hash, parent, (*block.token_ids,), scope, _MEDIA[told.tier])
                    parent = block.block_hash
            case "removed":
                for block_hash in event.removed.block_hashes:
                    yield Removed(block_hash, _MEDIA[event.removed.tier])
            case "cleared":
                yield Cleared()


class Subscriber:
    """Reads in a thread of its own, and keeps an index."""

    def __init__(
        self, target: RunningTarget, start: int = 0, metadata: Any = None, *, keeps_index: bool = True, stub: Any = None
    ) -> None:
        """From amid the events no index can be kept."""
        self._keeps_index = keeps_index
        self.index, self.batches, self.error = CacheIndex(), SimpleQueue[common_pb2.KvEventBatch](), ""
        self.last = 0
        request = common_pb2.SubscribeKvEventsRequest(start_sequence_number=start)
        self._call = (stub or stub_of(target)).SubscribeKvEvents(request, timeout=120, metadata=metadata)
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            for batch in self._call:
                assert self.last in (0, batch.sequence_number - 1), "a gap"
                if self._keeps_index:
                    self.index.apply(events_of(batch))
                self.last = batch.sequence_number
                self.batches.put(batch)
        except grpc.RpcError as error:
            self.error = error.code().name

    def join(self) -> str:
        """Wait for the end, and return the name of its status."""
        self._thread.join()
        return self.error

    def leave(self) -> None:
        self._call.cancel()
        self._thread.join()


def kept_snapshots(target: RunningTarget) -> bool:
    return bool(journal_of(target)._snapshots)


@pytest.mark.parametrize("offload", [None, 1 << 16], ids=["without offload", "with offload"])
def test_an_index_of_events_alone_is_the_caches_own(model: Path, loras: dict[str, Path], offload: int | None) -> None:
    settings: dict[str, Any] = {"kv_blocks": 16, "kv_offload_memory": offload, "loras": loras}
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
        late = Subscriber(target)
        wait_until(lambda: late.index.copies == subscriber.index.copies)
        for each in (subscriber, late):
            each.leave()
        target.assert_all_free()


@pytest.mark.parametrize("fronts", [1, 2])
def test_an_engine_in_another_process_tells_the_same(model: Path, loras: dict[str, Path], fronts: int) -> None:
    with target_server(model, kv_events=True, own_process=True, fronts=fronts, kv_blocks=16, loras=loras) as target:
        subscriber = Subscriber(target)
        work(target)
        late = Subscriber(target)
        wait_until(lambda: late.index.copies and late.index.copies == subscriber.index.copies)
        again = Subscriber(target, start=subscriber.last, keeps_index=False)
        assert again.batches.get(timeout=60).sequence_number == subscriber.last
        for each in (subscriber, late, again):
            each.leave()


def test_a_snapshot_comes_in_parts(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_journal, "_PART_BLOCKS", 2)
    with target_server(model, kv_events=True) as target:
        generate(target, "one two three four five six seven eight " * 8)
        subscriber = Subscriber(target)
        first = subscriber.batches.get(timeout=60)
        count = first.snapshot.count
        parts = [first, *(subscriber.batches.get(timeout=60) for _ in range(count - 1))]
        assert [(part.snapshot.index, part.snapshot.count) for part in parts] == [(at, count) for at in range(count)]
        assert {part.snapshot.blocks for part in parts} == {len(subscriber.index.copies)}
        assert count > 2
        assert [part.events[0].HasField("cleared") for part in parts] == [True] + [False] * (count - 1)
        assert Subscriber(target, start=first.sequence_number + 1).join() == "OUT_OF_RANGE"
        subscriber.leave()
        assert not kept_snapshots(target)


@pytest.mark.parametrize("start", [17, 1 << 62])
def test_a_number_that_is_not_known_is_out_of_range(model: Path, start: int) -> None:
    with target_server(model, kv_events=True) as target:
        assert Subscriber(target, start=start).join() == "OUT_OF_RANGE"


def test_a_subscriber_that_loses_events_is_told(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_journal, "_MOST_EVENTS", 4)
    with target_server(model, kv_events=True, kv_blocks=8) as target:
        subscriber = Subscriber(target)
        subscriber.batches.get(timeout=60)
        journal = journal_of(target)
        wait_until(lambda: journal._waiting)

        target.on_engine_thread(lambda: journal._add([(Cleared(),)] * 10))  # more than are kept, at once
        assert subscriber.join() == "DATA_LOSS"


def test_a_subscriber_does_not_keep_a_server_from_its_end(model: Path) -> None:
    with target_server(model, kv_events=True) as target:
        subscriber = Subscriber(target)
        subscriber.batches.get(timeout=60)
    assert subscriber.join() in ("UNAVAILABLE", "CANCELLED")


def test_a_subscriber_of_a_model_that_is_unloaded_is_told(model: Path) -> None:
    with target_server(model, kv_events=True) as target:
        subscriber = Subscriber(target)
        subscriber.batches.get(timeout=60)
        target.call(target.model.close())
        assert subscriber.join() == "UNAVAILABLE"
        assert Subscriber(target).join() == "UNAVAILABLE"


def has_room(target: RunningTarget, stub: Any = None) -> bool:
    """Whether another subscriber of this caller is served, who leaves again; a place is given back after a call."""
    another = Subscriber(target, stub=stub, keeps_index=False)
    while another._thread.is_alive() and another.batches.empty():
        another._thread.join(0.01)
    another.leave()
    return not another.batches.empty()


def test_only_so_many_subscribers_of_one_caller_are_served(model: Path) -> None:
    with target_server(model, kv_events=True) as target:
        served = [Subscriber(target) for _ in range(8)]
        for each in served:
            each.batches.get(timeout=60)
        assert Subscriber(target).join() == "RESOURCE_EXHAUSTED"
        served[0].leave()
        wait_until(lambda: has_room(target))
        for each in served[1:]:
            each.leave()


def test_a_subscriber_that_takes_nothing_is_dropped(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribers, "_MOST_SUBSCRIBERS", 2)  # one for each caller
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, reader_timeout=0.5)
    with (
        target_server(model, kv_events=True, server=config) as target,
        grpc.insecure_channel(target.address, NARROW) as channel,
    ):
        stub = vllm_engine_pb2_grpc.VllmEngineStub(channel)
        call = stub.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest(), timeout=120)
        next(call)
        assert Subscriber(target, stub=stub).join() == "RESOURCE_EXHAUSTED"
        tell_much(target)
        wait_until(lambda: has_room(target, stub))
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
        assert (failure.value.code(), failure.value.details()) == (
            grpc.StatusCode.UNAVAILABLE,
            "the subscriber has taken nothing for too long: subscribe again",
        )


def test_a_call_that_is_cancelled_leaves_no_snapshot(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_journal, "_PART_BLOCKS", 1)
    with target_server(model, kv_events=True) as target:
        tell_much(target)
        call = stub_of(target).SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest(), timeout=120)
        assert next(call).snapshot.count == 2000
        assert kept_snapshots(target)
        call.cancel()
        wait_until(lambda: not kept_snapshots(target))


def test_a_model_whose_layers_carry_states_is_refused() -> None:
    folder = further_checkpoint(Further.QWEN3_5)
    with pytest.raises(ConfigError, match="kv_events"), target_server(folder, kv_events=True):
        pass


def test_they_need_a_prefix_cache(model: Path) -> None:
    with pytest.raises(ConfigError, match="kv_events"), target_server(model, kv_events=True, prefix_cache=False):
        pass


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
        with pytest.raises(grpc.RpcError) as failure:
            list(stub_of(target).Generate(contract_request("one"), metadata=router, timeout=60))
        assert failure.value.code() is grpc.StatusCode.PERMISSION_DENIED
