"""A decoder filled from the cache computes the bits of one whose weights were packed."""

import threading
from pathlib import Path

import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.config import CPU_WEIGHT_FORMATS
from services.engine.decoder.background_digest import BackgroundDigest
from services.engine.decoder.digest_record import DigestRecord
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import Batch, Decoder, DecoderConfig, isas
from services.engine.decoder.weights_cache import WeightsCache
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.native.harness.devices import EMULATION, make_device, needs_emulation

TOKENS = [5, 17, 301, 42, 8, 99, 250, 11, 3]


def load(folder: Path, isa: str, weights: str, kind: Kind = Kind.LLAMA_LINEAR) -> Decoder:
    checkpoint, device = load_checkpoint(random_checkpoint(kind)), make_device(isa, threads=2)
    digest = BackgroundDigest(checkpoint, DigestRecord(folder, checkpoint))
    cache = WeightsCache(folder, digest, threads=2)
    return load_decoder(checkpoint, device, weights=weights, kv="bf16", num_blocks=4, cache=cache)


def logits(decoder: Decoder) -> torch.Tensor:
    batch = Batch(max_rows=len(TOKENS), max_sequences=1, max_blocks=4)
    batch.append(TOKENS, position=0, blocks=range(4), num_logits=len(TOKENS))
    return torch.from_numpy(decoder.forward(batch).logits.numpy())


def packed_file(folder: Path) -> Path:
    [path] = folder.glob("*.packed")
    return path


@pytest.mark.parametrize("weights", CPU_WEIGHT_FORMATS)
@pytest.mark.parametrize("isa", isas())
def test_cached_weights_give_the_same_bits(tmp_path: Path, isa: str, weights: str, caplog) -> None:
    caplog.set_level("INFO")
    packed, cached = load(tmp_path, isa, weights), load(tmp_path, isa, weights)
    assert caplog.messages[-1].startswith(f"weights read from {packed_file(tmp_path)} in ")
    assert cached.missing_weights() == []
    assert torch.equal(logits(cached), logits(packed))


@pytest.mark.parametrize("kind", Kind)
def test_every_architecture_is_cached_whole(tmp_path: Path, kind: Kind) -> None:
    packed, cached = (load(tmp_path, isas()[0], "int4", kind) for _ in range(2))
    assert torch.equal(logits(cached), logits(packed))


def test_each_device_and_format_has_a_file_of_its_own(tmp_path: Path) -> None:
    for isa in isas():
        for weights in CPU_WEIGHT_FORMATS:
            load(tmp_path, isa, weights)
    assert len([*tmp_path.glob("*.packed")]) == len(isas()) * len(CPU_WEIGHT_FORMATS)


@pytest.mark.parametrize("weights", CPU_WEIGHT_FORMATS)
def test_a_damaged_file_is_made_anew(tmp_path: Path, weights: str, caplog) -> None:
    expected = logits(load(tmp_path, isas()[0], weights))
    path = packed_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3] + b"\xff" * (len(whole) - len(whole) // 3))
    assert torch.equal(logits(load(tmp_path, isas()[0], weights)), expected)
    assert f"weights are packed again: {path}: weight " in caplog.text
    assert path.read_bytes() == whole


def test_a_foreign_file_is_made_anew(tmp_path: Path, caplog) -> None:
    load(tmp_path, isas()[0], "int8", Kind.LLAMA)
    foreign = packed_file(tmp_path)
    expected = logits(load(tmp_path / "other", isas()[0], "int8"))
    own = packed_file(tmp_path / "other")
    foreign.rename(own)
    assert torch.equal(logits(load(tmp_path / "other", isas()[0], "int8")), expected)
    assert f"weights are packed again: {own}: was made for " in caplog.text


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog) -> None:
    folder = tmp_path / "cache"
    folder.write_text("a file")
    decoder = load(folder, isas()[0], "bf16")
    assert "packed weights are not kept: " in caplog.text
    assert torch.equal(logits(decoder), logits(load(tmp_path / "good", isas()[0], "bf16")))


@needs_emulation
def test_a_device_with_memory_of_its_own_has_no_packed_weights() -> None:
    config = load_checkpoint(random_checkpoint(Kind.LLAMA)).config
    decoder = Decoder(make_device(EMULATION, 1), DecoderConfig(config), weights="bf16", kv="bf16", num_blocks=1)
    with pytest.raises(ValueError, match="holds its weights in its own memory"):
        decoder.packed_weights()


def test_without_a_weights_cache_packing_waits_for_no_digest(tmp_path, monkeypatch) -> None:
    checkpoint, device = load_checkpoint(random_checkpoint(Kind.LLAMA)), make_device(isas()[0], threads=1)
    goes_on = threading.Event()
    monkeypatch.setattr(checkpoint, "weights_digest", lambda cancelled: str(goes_on.wait()))
    cache = WeightsCache(tmp_path / "none", BackgroundDigest(checkpoint), threads=1)
    decoder = Decoder(device, DecoderConfig(checkpoint.config), weights="bf16", kv="bf16", num_blocks=1)
    assert not cache.restore(decoder, device, "bf16")
    goes_on.set()
