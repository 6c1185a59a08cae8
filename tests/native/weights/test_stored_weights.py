"""The integers of a GGUF file are held as they are stored: nothing of the file's values is lost on the way."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.decoder.background_digest import BackgroundDigest
from services.engine.decoder.model_loader import find_blocks, load_decoder
from services.engine.decoder.native import Batch, Decoder, Device, isas
from services.engine.decoder.weights_cache import WeightsCache
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.gguf_files import write_gguf
from tests.native.harness.devices import on_cpus

TOKENS = [5, 17, 301, 42, 8, 99, 250, 11, 3]
KINDS = ["Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1", "IQ4_NL"]


def checkpoint_of(folder: Path, kind: str) -> Checkpoint:
    """A random model whose matrices are stored in such blocks; Llama's order of rows is not ours."""
    path = write_gguf(random_checkpoint(Kind.LLAMA), folder / f"{kind}.gguf", gguf.GGMLQuantizationType[kind])
    return load_checkpoint(path)


def load(checkpoint: Checkpoint, weights: str, isa: str, cache: Path | None = None) -> Decoder:
    packed = WeightsCache(cache, BackgroundDigest(checkpoint), threads=2) if cache else None
    device = Device.cpu(isa, threads=2)
    return load_decoder(checkpoint, device, weights=weights, kv="f32", num_blocks=4, cache=packed)


def logits(decoder: Decoder) -> np.ndarray:
    batch = Batch(max_rows=len(TOKENS), max_sequences=1, max_blocks=4)
    batch.append(TOKENS, position=0, blocks=range(4), num_logits=len(TOKENS))
    return decoder.forward(batch).logits.numpy()


@on_cpus
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_the_one_that_the_file_describes(tmp_path, device_name, kind):
    """All but the rounding of activations: rounding the weights once more is worse."""
    checkpoint = checkpoint_of(tmp_path, kind)
    exact = logits(load(checkpoint, "f32", device_name))
    stored, again = load(checkpoint, "stored", device_name), load(checkpoint, "int4", device_name)
    assert np.abs(logits(stored) - exact).mean() < 0.5 * np.abs(logits(again) - exact).mean()
    assert {*find_blocks(checkpoint)} == {name for name, values in checkpoint.weights() if values.ndim == 2}


@on_cpus
@pytest.mark.parametrize("kind", [Further.MIXTRAL, Further.QWEN2_MOE, Further.GLM4_MOE])
def test_experts_are_the_ones_that_the_file_describes(tmp_path, device_name, kind):
    """Matrices whose rows are no whole blocks are no integers in the file either."""
    path = write_gguf(further_checkpoint(kind), tmp_path / "experts.gguf", gguf.GGMLQuantizationType.Q8_0)
    checkpoint = load_checkpoint(path)
    exact, again = (logits(load(checkpoint, weights, device_name)) for weights in ("f32", "int8"))
    stored = logits(load(checkpoint, "stored", device_name))
    assert 0 < np.abs(stored - exact).mean() < np.abs(again - exact).mean()
    held = {*find_blocks(checkpoint)}
    assert {name for name in held if ".experts." in name} >= {f"layers.3.experts.{each}.gate" for each in range(5)}
    assert held == {name for name, stored in checkpoint.matrices().items() if stored == "Q8_0"}


@pytest.mark.parametrize("kind", KINDS)
def test_cached_weights_give_the_same_bits(tmp_path, kind):
    checkpoint = checkpoint_of(tmp_path, kind)
    packed, cached = (logits(load(checkpoint, "stored", isas()[0], tmp_path / "cache")) for _ in range(2))
    assert np.array_equal(packed.view(np.uint32), cached.view(np.uint32))


def test_each_kind_of_file_has_packed_weights_of_its_own(tmp_path):
    """Those of two types may have the very same layout."""
    for kind in KINDS:
        load(checkpoint_of(tmp_path, kind), "stored", isas()[0], tmp_path / "cache")
    assert len([*(tmp_path / "cache").glob("*.packed")]) == len(KINDS)


def test_a_file_without_blocks_has_no_groups(tmp_path):
    assert find_blocks(checkpoint_of(tmp_path, "BF16")) == {}
