"""KV events by ZMQ: who reads as vLLM's subscribers do keeps an index that is the cache's own."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
import zmq

from services.engine.cache import cache_journal
from services.engine.cache.cache_journal import CacheEvent, Cleared, Medium, Removed, Stored
from services.engine.config import ConfigError
from services.target.kv_events.zmq_config import ZmqConfig
from tests.harness.cache_index import CacheIndex
from tests.harness.servers.loop_thread import PATIENCE_SECONDS
from tests.harness.servers.server import target_server, wait_until
from tests.vllm_contract.cache_work import generate, is_as_it_is, tell_much, work

MEDIA = {"GPU": Medium.DEVICE, "CPU": Medium.HOST, "STORAGE": Medium.DISK}
END = b"\xff" * 8


def signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


class ZmqIndex(CacheIndex):
    """Takes messages; only a text's first block has its salt."""

    def __init__(self) -> None:
        super().__init__()
        self._salts: dict[int | None, str] = {}

    def take(self, payload: bytes) -> None:
        self.apply(events_of(payload, self._salts))


def events_of(payload: bytes, salts: dict[int | None, str]) -> Iterator[CacheEvent]:
    """A message's events as the journal has them, by the names of vLLM's fields."""
    time, events, rank = msgspec.msgpack.decode(payload)
    assert (rank, time > 0) == (0, True)
    for event in events:
        match event:
            case {"type": "BlockStored", "block_hashes": hashes, "token_ids": token_ids, "block_size": size, **told}:
                assert len(token_ids) == size * len(hashes)
                parent = told["parent_block_hash"] and signed(told["parent_block_hash"])
                keys = (told.get("extra_keys") or [None])[0] or []
                salt = salts[parent] if parent is not None else "".join(key for key in keys if key != told["lora_name"])
                for at, number in enumerate(hashes):
                    tokens = (*token_ids[at * size : (at + 1) * size],)
                    scope = f"{told['lora_name'] or ''}\0{salt}"
                    yield Stored(signed(number), parent, tokens, scope, MEDIA[told["medium"]])
                    parent = signed(number)
                    salts[parent] = salt
            case {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium}:
                for number in hashes:
                    yield Removed(signed(number), MEDIA[medium])
            case {"type": "AllBlocksCleared"}:
                yield Cleared()
            case _:
                raise AssertionError(event)


class Subscriber:
    """Reads what is published in a thread of its own; what it has missed it asks for."""

    def __init__(self, config: ZmqConfig) -> None:
        self.index, self.topic, self.last = ZmqIndex(), b"", -1
        self._config, self._context = config, zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.connect(config.endpoint)
        self._socket.subscribe("")
        self._ends = False
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ends:
            if self._socket.poll(20):
                self.topic, number, payload = self._socket.recv_multipart()
                self._take(int.from_bytes(number, "big"), payload)

    def _take(self, number: int, payload: bytes) -> None:
        if number <= self.last:
            return
        if number != self.last + 1:
            for each, events in asked_again(self._config, self.last + 1):
                self._apply(each, events)
        if number > self.last:
            self._apply(number, payload)

    def _apply(self, number: int, payload: bytes) -> None:
        self.index.take(payload)
        self.last = number

    def leave(self) -> None:
        self._ends = True
        self._thread.join()
        self._context.destroy(linger=0)


def asked_again(config: ZmqConfig, start: int) -> list[tuple[int, bytes]]:
    """The batches from that number on."""
    assert config.replay is not None
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(config.replay)
        socket.send_multipart([b"", start.to_bytes(8, "big")])
        batches = []
        while True:
            assert socket.poll(PATIENCE_SECONDS * 1000)
            empty, number, payload = socket.recv_multipart()
            assert empty == b""
            if number == END:
                assert payload == b""
                return batches
            batches.append((int.from_bytes(number, "big"), payload))


@pytest.fixture
def config(tmp_path: Path) -> ZmqConfig:
    return ZmqConfig(endpoint=f"ipc://{tmp_path}/events", replay=f"ipc://{tmp_path}/replay")


@pytest.mark.parametrize("own_process", [False, True], ids=["own", "another process"])
def test_an_index_of_events_alone_is_the_caches_own(
    model: Path, loras: dict[str, Path], config: ZmqConfig, own_process: bool
) -> None:
    settings: dict[str, Any] = {"kv_blocks": 16, "kv_offload_memory": 1 << 16, "loras": loras}
    with target_server(model, kv_events=True, zmq=config, own_process=own_process, **settings) as target:
        work(target)
        subscriber = Subscriber(config)
        wait_until(lambda: (generate(target, "on and on " * 12), subscriber.index.copies))
        work(target)
        if own_process:
            number, payload = asked_again(config, 0)[-1]
            wait_until(lambda: subscriber.last >= number)
        else:
            wait_until(lambda: is_as_it_is(subscriber.index, target))
        assert subscriber.index.hashes(Medium.HOST)
        assert subscriber.topic.decode().split("@")[::2] == ["kv", target.model.name]
        late = ZmqIndex()
        for _, payload in asked_again(config, 0):
            late.take(payload)
        wait_until(lambda: late.copies == subscriber.index.copies)
        subscriber.leave()


def test_a_gap_is_filled_with_what_was_missed_or_a_snapshot(
    model: Path, config: ZmqConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with target_server(model, kv_events=True, zmq=config) as target:
        generate(target, "one two three four five six seven eight " * 4)
        first = asked_again(config, 0)
        generate(target, "nine ten " * 20)
        missed = asked_again(config, first[-1][0] + 1)
        assert [number for number, _ in missed] == [*range(first[-1][0] + 1, first[-1][0] + 1 + len(missed))]
        index = ZmqIndex()
        for _, payload in first + missed:
            index.take(payload)
        assert is_as_it_is(index, target)
        monkeypatch.setattr(cache_journal, "_MOST_EVENTS", 1)
        generate(target, "eleven twelve " * 20)
        for start in (first[-1][0], 1 << 63):  # not kept any more, and not known
            snapshot = asked_again(config, start)
            assert next(events_of(snapshot[0][1], {})) == Cleared()
            for _, payload in snapshot:
                index.take(payload)
            assert is_as_it_is(index, target)


@pytest.mark.parametrize("own_process", [False, True], ids=["own", "another process"])
def test_a_model_that_is_loaded_again_begins_with_a_snapshot(model: Path, config: ZmqConfig, own_process: bool) -> None:
    with target_server(model, kv_events=True, zmq=config, own_process=own_process) as target:
        subscriber = Subscriber(config)
        wait_until(lambda: (generate(target, "one two three four " * 8), subscriber.index.copies))
        last = subscriber.last
        target.call(target.model.close())
        assert asked_again(config, last + 1) == []
        target.call(target.model.open())
        wait_until(lambda: subscriber.last > last and not subscriber.index.copies)
        generate(target, "one two three four " * 8)
        wait_until(lambda: subscriber.index.copies)
        subscriber.leave()


def test_an_idle_client_does_not_hold_up_anothers_replay(
    model: Path, config: ZmqConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_journal, "_PART_BLOCKS", 1)
    with target_server(model, kv_events=True, zmq=config) as target, zmq.Context() as context:
        tell_much(target)
        with context.socket(zmq.DEALER) as idle:
            idle.setsockopt(zmq.LINGER, 0)
            idle.setsockopt(zmq.RCVHWM, 1)
            idle.connect(config.replay)
            idle.send_multipart([b"", (0).to_bytes(8, "big")])
            assert idle.poll(PATIENCE_SECONDS * 1000)
            for _ in range(2):
                assert len(asked_again(config, 0)) == 2000


@pytest.mark.parametrize("frames", [[b""], [b"", b"1234"], [b"12345678"], [b"", b"", b"12345678"]])
def test_requests_that_are_none_are_not_answered(
    model: Path, config: ZmqConfig, frames: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    with target_server(model, kv_events=True, zmq=config), zmq.Context() as context:
        with context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(config.replay)
            socket.send_multipart(frames)
            wait_until(lambda: "one number of 8 bytes" in caplog.text)
            assert not socket.poll(0)
        assert asked_again(config, 0)


def test_addresses_that_are_wrong_are_refused(model: Path, tmp_path: Path) -> None:
    for address in ("5557", "tcp://*", "udp://*:1", "tcp://a b:1"):
        with pytest.raises(ConfigError, match=r"kv_events_zmq is .*; it must be tcp://\*:PORT"):
            ZmqConfig(endpoint=address)
    everywhere = ZmqConfig(endpoint="tcp://*:5557")
    with pytest.raises(ConfigError, match="--insecure"), target_server(model, kv_events=True, zmq=everywhere):
        pass
    here = ZmqConfig(endpoint=f"ipc://{tmp_path}/events")
    with pytest.raises(ConfigError, match="without kv_events"), target_server(model, zmq=here):
        pass
    nowhere = ZmqConfig(endpoint=f"ipc://{tmp_path}/no/events")
    with pytest.raises(ConfigError, match="cannot be opened"), target_server(model, kv_events=True, zmq=nowhere):
        pass


def test_a_publisher_connects_to_a_subscriber_with_a_topic(model: Path) -> None:
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        socket.subscribe("kv@a@b")
        config = ZmqConfig(endpoint=f"tcp://127.0.0.1:{port}", topic="kv@a@b")
        with target_server(model, kv_events=True, zmq=config) as target:
            wait_until(lambda: (generate(target, "one two " * 20), socket.poll(0)))
            assert socket.recv_multipart()[0] == b"kv@a@b"
