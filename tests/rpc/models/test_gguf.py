"""A GGUF file is served as the folder that it was made of: the same bytes, the same chat."""

import re
from pathlib import Path

import gguf
import pytest
import torch

import outrider
from outrider.v1 import common_pb2, generation_pb2
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.gguf_files import BF16, F32, write_gguf
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.commands import SMALL, outrider_begin, outrider_run, press_ctrl_c
from tests.rpc.harness.draft_link import drafted_target
from tests.rpc.harness.requests import PROMPT, Streamed, stream, stream_request

CHAT = {"chat": {"messages": [{"role": "user", "content": "Count to 10."}]}}


def texts(target: RunningTarget) -> list[Streamed]:
    """A greedy text, a sampled one, and an answer in a chat."""
    greedy = stream_request(sampling={"temperature": 0.0})
    sampled = stream_request(sampling={"seed": 7, "temperature": 0.8})
    return [stream(target, request) for request in (greedy, sampled, stream_request(CHAT))]


def ids(target: RunningTarget) -> list[list[int]]:
    return [each.token_ids for each in texts(target)]


@pytest.mark.parametrize("kind", [Kind.LLAMA_LINEAR, Kind.QWEN3, Kind.PHI3, Kind.OLMO2])
def test_a_file_of_float32_gives_the_bytes_of_its_folder(tmp_path: Path, kind: Kind) -> None:
    folder = random_checkpoint(kind)
    with target_server(folder, weights="f32") as target:
        expected = ids(target)
    with target_server(write_gguf(folder, tmp_path / "model.gguf"), weights="f32") as target:
        assert ids(target) == expected
        info = target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest())
        assert (info.has_chat_template, list(info.eos_token_ids)) == (True, [1])


def test_a_file_of_bfloat16_gives_the_bytes_of_its_folder(tmp_path: Path) -> None:
    folder = random_checkpoint(Kind.QWEN3, torch.bfloat16)
    with target_server(folder) as target:
        expected = ids(target)
    with target_server(write_gguf(folder, tmp_path / "model.gguf", BF16)) as target:
        assert ids(target) == expected


def test_a_draft_from_a_file_changes_no_byte_and_is_right(tmp_path: Path) -> None:
    folder = random_checkpoint(Kind.QWEN3)
    path = write_gguf(folder, tmp_path / "model.gguf", gguf.GGMLQuantizationType.Q8_0)
    with target_server(path) as target:
        expected = ids(target)
    with drafted_target(path, path) as target:
        assert ids(target) == expected
        always = {"mode": common_pb2.SPECULATION_MODE_ALWAYS, "num_predictions": 4}
        forced = stream_request(PROMPT, speculation=always)
        # On a busy machine a draft may be too late for all of an answer.
        wait_until(lambda: stream(target, forced).finished.speculation.accepted > 0)


def test_packed_weights_are_kept_by_kind_of_file(tmp_path: Path) -> None:
    folder, cache = random_checkpoint(Kind.QWEN3), tmp_path / "cache"
    path = write_gguf(folder, tmp_path / "model.gguf", F32)
    fingerprints = set()
    for kind in (F32, F32, BF16):
        write_gguf(folder, path, kind)
        with target_server(path, weights_cache=cache) as target:
            fingerprints.add(target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).fingerprint)
            wait_until(lambda: len([*cache.glob("*.packed")]) == len(fingerprints))


@pytest.mark.exhaustive  # the services by themselves are tested above, and `up` with folders elsewhere
def test_up_serves_a_file_with_a_file_as_its_draft(tmp_path: Path) -> None:
    path = write_gguf(random_checkpoint(Kind.QWEN3), tmp_path / "model.gguf", BF16)
    with target_server(path) as target:
        expected = stream(target, stream_request()).token_ids
    with outrider_begin(
        "up", "--model", str(path), "--draft", str(path), "--listen", "127.0.0.1:0", "--", *SMALL
    ) as process:
        assert process.stdout is not None
        found = re.search(r"up on (\S+);", process.stdout.readline())
        assert found is not None
        with outrider.Client(found[1]) as client:
            result = client.generate(PROMPT, seed=5, max_tokens=24, ignore_eos=True)
        assert list(result.token_ids) == expected
        press_ctrl_c(process)
        process.communicate(timeout=60)


def test_a_damaged_file_ends_the_start_with_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    done = outrider_run("target", "--model", str(path), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("outrider target: ")]
    assert error == f"outrider target: {path}: the version: is 0; allowed are 2, 3"
