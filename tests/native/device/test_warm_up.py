"""A model is tried before it serves: weights that are not finite are found and named."""

import pytest

from services.engine.config import CPU_WEIGHT_FORMATS, EngineConfig
from services.engine.decoder.native import isas
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.loaded_model import LoadedModel
from tests.harness.models.checkpoints import Kind, copy_of, edit_weights, random_checkpoint


def load(folder, weights: str, cache=None) -> LoadedModel:
    return LoadedModel.load(
        EngineConfig(model=folder, isa=isas()[0], threads=1, weights=weights, weights_cache=cache, kv_blocks=2)
    )


@pytest.mark.parametrize("weights", CPU_WEIGHT_FORMATS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "name", ["model.layers.2.self_attn.q_proj.weight", "model.layers.3.mlp.down_proj.weight", "model.norm.weight"]
)
def test_one_weight_that_is_not_finite_is_named(tmp_path, weights, value, name):
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    edit_weights(folder, lambda tensors: tensors[name].view(-1)[77:78].fill_(value))
    with pytest.raises(CheckpointError) as refused:
        load(folder, weights)
    assert str(refused.value) == (
        f"{folder / 'model.safetensors'}: tensor {name!r} holds NaN or an infinity, so the model's logits are not "
        "finite; all weights must be finite"
    )


def test_packed_weights_are_tried_too(tmp_path):
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    edit_weights(folder, lambda tensors: tensors["lm_head.weight"][5].fill_(float("nan")))
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"tensor 'lm_head\.weight' holds NaN"):
            load(folder, "bf16", cache=tmp_path / "cache")


def test_finite_weights_with_infinite_products_are_found(tmp_path):
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    edit_weights(folder, lambda tensors: [tensors[name].mul_(1e30) for name in ("model.norm.weight", "lm_head.weight")])
    with pytest.raises(CheckpointError, match=r"logits are not finite, though its weights are: see its configuration"):
        load(folder, "f32")
