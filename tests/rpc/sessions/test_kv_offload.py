"""The offload in a server: the same bytes with it and without; sessions, flushes, other servers, kill and restart."""

import errno
import os
import struct
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.engine.config import ConfigError
from services.engine.decoder.native import BLOCK_SIZE
from services.service.server_config import ServerConfig
from services.target.metrics.request_statistics import RequestStatistics
from tests.harness.network.free_port import free_port
from tests.harness.processes.warm_commands import warm_process
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.requests import Streamed, stream, stream_request
from tests.rpc.service.test_metric_names import collect
from tests.rpc.sessions.test_sessions import LONG, MORE, create, delete

FEW_BLOCKS = {"kv_blocks": 8, "session_blocks": 4}
MIB = 1 << 20


def offload(kind: str, folder: Path) -> dict[str, Any]:
    return {"kv_offload_memory": MIB} if kind == "memory" else {"kv_offload_dir": folder, "kv_offload_disk": MIB}


def ask(target: Any, **fields: Any) -> Streamed:
    return stream(target, stream_request([*LONG, *MORE], output={"top_candidates": 3}, **fields))


def bits(answer: Streamed) -> tuple[object, ...]:
    return answer.text, answer.token_ids, answer.records


def evict(target: Any) -> None:
    """Ask for so much else that nothing stays that is not held."""
    for token in range(200, 204):
        stream(target, stream_request([token] * 120, stop={"max_tokens": 3}))


@pytest.fixture(params=["memory", "disk"])
def target(request: pytest.FixtureRequest, model: Path, tmp_path: Path) -> Iterator[RunningTarget]:
    """A server whose cache holds little, and its offload much."""
    with target_server(model, **FEW_BLOCKS, **offload(request.param, tmp_path / "pages")) as target:
        yield target


@pytest.fixture(scope="module")
def expected(model: Path) -> tuple[object, ...]:
    """The answer of a server without an offload."""
    with target_server(model) as target:
        return bits(ask(target))


def test_evicted_blocks_are_found_with_the_same_bytes(target: RunningTarget, expected: tuple[object, ...]) -> None:
    for num_found in (0, 3, 3):
        before = target.engine.offload.num_found
        answer = ask(target)
        assert (bits(answer), answer.started.cached_tokens) == (expected, num_found * 32)
        assert target.engine.offload.num_found - before == num_found
        evict(target)
    target.assert_all_free()


def test_a_session_is_held_and_may_be_found_after_its_end(target: RunningTarget, expected: tuple[object, ...]) -> None:
    session = create(target, LONG)
    evict(target)
    behind = stream(target, stream_request(MORE, session=session.name, output={"top_candidates": 3}))
    assert (bits(behind), behind.started.cached_tokens) == (expected, 96)
    assert target.engine.offload.num_found == 0
    delete(target, session.name)
    evict(target)
    before = target.engine.offload.num_found
    answer = ask(target)
    assert (bits(answer), answer.started.cached_tokens) == (expected, 96)
    assert target.engine.offload.num_found - before == 3


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_flush_forgets_evicted_blocks_too(
    model: Path, tmp_path: Path, kind: str, expected: tuple[object, ...]
) -> None:
    server = ServerConfig(listen="127.0.0.1:0", admin_listen=f"127.0.0.1:{free_port()}", drain_seconds=0)
    with target_server(model, server=server, **FEW_BLOCKS, **offload(kind, tmp_path)) as target:
        ask(target)
        evict(target)
        num_held = target.engine.blocks.num_findable + target.engine.offload.store.num_pages
        with grpc.insecure_channel(server.admin_listen) as channel:
            flushed = AdminServiceStub(channel).FlushPrefixCache(admin_pb2.FlushPrefixCacheRequest())
        assert flushed.forgotten_blocks == num_held > 8
        answer = ask(target)
        assert (bits(answer), answer.started.cached_tokens) == (expected, 0)


def test_a_folder_that_another_server_uses_is_refused(model: Path, tmp_path: Path) -> None:
    with target_server(model, **offload("disk", tmp_path)) as target:
        text = f"kv_offload_dir is {tmp_path}; it must be a folder of this process alone: another process uses "
        with pytest.raises(ConfigError, match=text), target_server(model, **offload("disk", tmp_path)):
            pass
        assert bits(ask(target))
    with target_server(model, **offload("disk", tmp_path)) as target:
        assert bits(ask(target))


def test_an_offload_too_small_or_without_a_folder_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for settings, text in (
        ({"kv_offload_memory": 100}, "kv_offload_memory is 100 bytes; it must be at least "),
        ({"kv_offload_dir": tmp_path, "kv_offload_disk": 100}, "kv_offload_disk is 100 bytes; it must be at least "),
        (offload("disk", tmp_path / "file"), "file; it must be a folder of this process alone: "),
    ):
        with pytest.raises(ConfigError, match=text), target_server(model, **settings):
            pass


def test_a_disk_that_fails_ends_the_offload_and_no_request(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: tuple[object, ...]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with target_server(model, **FEW_BLOCKS, **offload("disk", tmp_path)) as target:
        for is_full in (False, True):
            assert bits(ask(target)) == expected
            evict(target)
            target.engine.offload.store.flush()
            told = figures(target)
            assert told["outrider:kv_offload_failed"] == is_full
            assert (told["outrider:kv_offload_bytes held"] > 0) == (not is_full)
            assert told["outrider:kv_offload_moves_total stored"] >= 3
            monkeypatch.setattr(os, "pwrite", fail)
            stream(target, stream_request([220] * 120))  # which no request has used before
        assert bits(ask(target)) == expected


def figures(target: RunningTarget) -> dict[str, float]:
    """The offload's metrics in a scrape, by names and labels."""
    samples = [each for family in collect(target, RequestStatistics(), "outrider") for each in family.samples]
    return {
        " ".join([each.name, *(value for label, value in each.labels.items() if label != "model_name")]): each.value
        for each in samples
        if each.name.startswith("outrider:kv_offload")
    }


class KilledTarget:
    """What `stream` asks of a target, of one in a process of its own."""

    def __init__(self, stub: GenerationServiceStub) -> None:
        self.stub = stub


def wait_until_on_disk(file: Path, tokens: Seq[int]) -> None:
    """Until a file of pages has an entry for each whole block of tokens; an entry is written after its page."""
    starts = range(0, len(tokens) - BLOCK_SIZE + 1, BLOCK_SIZE)
    ids = [struct.pack(f"<{BLOCK_SIZE}I", *tokens[start : start + BLOCK_SIZE]) for start in starts]
    wait_until(lambda: all(each in file.read_bytes() for each in ids))


@contextmanager
def killed_target(model: Path, folder: Path, **options: str) -> Iterator[KilledTarget]:
    """A server in a process of its own, which ends by SIGKILL."""
    address = f"127.0.0.1:{free_port()}"
    own = {"model": str(model), "listen": address, "kv-blocks": "8", "session-blocks": "4", "threads": "1"}
    disk = {"kv-offload-dir": str(folder), "kv-offload-disk": "0.001"}
    arguments = [part for name, value in {**own, **disk, **options}.items() for part in (f"--{name}", value)]
    with warm_process(["target", *arguments]) as command:
        wait_until(lambda: command.stdout.exists() and command.stdout.read_text().endswith("serving\n"))
        with grpc.insecure_channel(address) as channel:
            yield KilledTarget(GenerationServiceStub(channel))


def test_a_killed_server_finds_pages_of_its_own_format_again(
    model: Path, tmp_path: Path, expected: tuple[object, ...]
) -> None:
    with killed_target(model, tmp_path) as target:
        ask(target)
        evict(target)
        wait_until_on_disk(next(tmp_path.iterdir()), LONG)
    for kv, num_cached in (("bf16", 96), ("int8", 0), ("bf16", 0)):
        with killed_target(model, tmp_path, kv=kv) as target:
            answer = ask(target)
            assert answer.started.cached_tokens == num_cached
            assert kv != "bf16" or bits(answer) == expected
