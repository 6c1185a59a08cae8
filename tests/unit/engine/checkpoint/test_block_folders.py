"""Folders of drafters that predict several tokens in one pass are read; what is not carried out is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.engine.checkpoint.attached.attached_drafter import AttachedDrafter, load_drafter
from services.engine.checkpoint.attached.block_fields import default_boundaries
from services.engine.checkpoint.attached.drafter_fields import LONGEST_CONTEXT
from services.engine.checkpoint.attached.drafter_kind import is_drafter_folder
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, FeatureBlock, ModelConfig, QkNorm
from services.engine.files.checkpoint_error import CheckpointError
from tests.harness.models.block_folders import (
    LAYERS,
    MASK,
    RANK,
    SIZE,
    block_tensors,
    deepspec_fields,
    markov_tensors,
    masked_fields,
    speculators_block_fields,
    zlab_fields,
)
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.drafter_folders import (
    BOUNDARIES,
    SMALL,
    Tensors,
    drafter_tensors,
    layer_fields,
    original_fields,
    speculators_fields,
    write_drafter,
)

WHOLE = Attention(window=LONGEST_CONTEXT, looks_ahead=True)


@pytest.fixture(scope="module")
def target() -> ModelConfig:
    return load_checkpoint(random_checkpoint(Kind.LLAMA)).config


def read(folder: Path, target: ModelConfig, fields: dict[str, Any], tensors: Tensors | None = None) -> AttachedDrafter:
    return load_drafter(write_drafter(folder, fields, block_tensors(target) if tensors is None else tensors), target)


def test_a_folder_of_zlab(tmp_path, target):
    drafter = read(tmp_path, target, zlab_fields(target))
    config, features = drafter.checkpoint.config, drafter.checkpoint.config.features
    assert drafter.boundaries == tuple(BOUNDARIES)
    assert features.block == FeatureBlock(size=SIZE, mask_token=MASK)
    assert (features.count, features.width, features.head_size, features.own_embedding) == (3, 128, 0, False)
    assert config.layers == (WHOLE,) * LAYERS
    assert config.qk_norm is QkNorm.HEAD
    assert config.max_position == target.max_position
    assert drafter.num_predictions == SIZE - 1
    weights, tensors = dict(drafter.checkpoint.weights()), block_tensors(target)
    assert np.array_equal(weights["layers.1.q"], tensors["layers.1.self_attn.q_proj.weight"])
    assert np.array_equal(weights["hidden_norm"], tensors["hidden_norm.weight"])
    assert is_drafter_folder(tmp_path)


def test_a_folder_of_speculators(tmp_path, target):
    tensors = block_tensors(target, head_size=SMALL)
    tensors["embed_tokens.weight"] = np.ones((target.vocab_size, target.hidden_size), np.float32)
    drafter = read(tmp_path, target, speculators_block_fields(target), tensors)
    features = drafter.checkpoint.config.features
    assert drafter.boundaries == tuple(BOUNDARIES)
    assert (features.head_size, features.own_embedding) == (SMALL, True)
    assert drafter.head_tokens == tuple((np.arange(SMALL) + tensors["d2t"]).tolist())
    assert drafter.num_predictions == SIZE - 1
    wide = speculators_block_fields(target, sample_from_anchor=True)
    drafter = read(tmp_path, target, wide, tensors)
    assert drafter.checkpoint.config.features.block == FeatureBlock(size=SIZE, mask_token=MASK, first_predicts=True)
    assert drafter.num_predictions == SIZE


def test_fields_may_be_inside_or_beside_those_of_the_block(tmp_path, target):
    fields = zlab_fields(target, target_layer_ids=[0, 1, 3], mask_token_id=9)
    fields["dflash_config"] = {"block_size": 4}
    del fields["block_size"]
    drafter = read(tmp_path, target, fields)
    assert drafter.boundaries == (1, 2, 4)
    assert drafter.checkpoint.config.features.block == FeatureBlock(size=4, mask_token=9)


WINDOWED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 48}


@pytest.mark.parametrize(
    ("changes", "own", "layers"),
    [
        (WINDOWED, {}, (Attention(window=48), WHOLE)),
        (WINDOWED | {"is_causal": False}, {}, (Attention(window=48, looks_ahead=True), WHOLE)),
        (WINDOWED, {"causal": True}, (Attention(window=48), Attention(window=LONGEST_CONTEXT))),
        (WINDOWED, {"swa_window_size": 30}, (Attention(window=30), WHOLE)),
        ({}, {"use_swa": True, "swa_window_size": 30}, (Attention(window=30, looks_ahead=True),) * LAYERS),
        (
            {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 40},
            {},
            (WHOLE, Attention(window=40, looks_ahead=True)),
        ),
        ({"layer_types": ["full_attention"] * 2, "sliding_window": None}, {}, (WHOLE,) * LAYERS),
    ],
)
def test_windows_and_what_looks_ahead(tmp_path, target, changes, own, layers):
    fields = zlab_fields(target, **changes)
    fields["dflash_config"] |= own
    assert read(tmp_path, target, fields).checkpoint.config.layers == layers


def test_windows_of_speculators_look_ahead_where_it_says_so(tmp_path, target):
    fields = speculators_block_fields(target, sliding_window_non_causal=True)
    fields["transformer_layer_config"] |= WINDOWED
    drafter = read(tmp_path, target, fields, block_tensors(target, head_size=SMALL))
    assert drafter.checkpoint.config.layers == (Attention(window=48, looks_ahead=True), WHOLE)


def test_layers_said_to_be_of_llama_are_those_of_qwen3(tmp_path, target):
    fields = speculators_block_fields(target)
    fields["transformer_layer_config"]["model_type"] = "llama"
    del fields["transformer_layer_config"]["head_dim"]
    drafter = read(tmp_path, target, fields, block_tensors(target, head_size=SMALL))
    assert (drafter.checkpoint.config.qk_norm, drafter.checkpoint.config.head_dim) == (QkNorm.HEAD, 32)


def test_boundaries_are_spread_as_by_zlab():
    assert default_boundaries(36, 5) == [2, 10, 18, 26, 34]
    assert default_boundaries(30, 5) == [2, 9, 15, 21, 28]


@pytest.mark.parametrize("name", ["other", "num_anchor"])
def test_unknown_fields_of_a_block_are_named(tmp_path, target, caplog, name):
    fields = zlab_fields(target)
    fields["dflash_config"][name] = 3
    read(tmp_path, target, fields)
    assert f"dflash_config: unknown fields, which are ignored: ['{name}']" in caplog.text


def test_windows_of_llama_layers_that_no_type_says_are_none(tmp_path, target):
    fields = speculators_fields(target)
    fields["transformer_layer_config"] |= {"sliding_window": 1024, "layer_types": ["full_attention"]}
    drafter = read(tmp_path, target, fields, drafter_tensors(target, layer="layers.0"))
    assert drafter.checkpoint.config.layers == (Attention(window=LONGEST_CONTEXT),)


def test_windows_of_llama_layers_are_those_that_types_say(tmp_path, target):
    fields = speculators_fields(target)
    fields["transformer_layer_config"] |= {"sliding_window": 100, "layer_types": ["sliding_attention"]}
    drafter = read(tmp_path, target, fields, drafter_tensors(target, layer="layers.0"))
    assert drafter.checkpoint.config.layers == (Attention(window=100),)
    fields["transformer_layer_config"]["layer_types"] *= 2
    with pytest.raises(CheckpointError, match="transformer_layer_config: field 'layer_types': must be 1 of them"):
        read(tmp_path, target, fields, drafter_tensors(target, layer="layers.0"))


def test_what_a_block_says_inside_holds(tmp_path, target):
    fields = zlab_fields(target, sample_from_anchor=False)
    fields["dflash_config"] |= {"sample_from_anchor": True}
    assert read(tmp_path, target, fields).checkpoint.config.features.block.first_predicts
    fields["dflash_config"] |= {"num_target_layers": 5}
    with pytest.raises(
        CheckpointError, match=r"field 'dflash_config\.num_target_layers': must be the target's, 4, is 5"
    ):
        read(tmp_path, target, fields)


@pytest.mark.parametrize("shape", [(), (1,), (3, 128), (2, 384)])
def test_features_of_masks_of_another_size_are_refused(tmp_path, target, shape):
    tensors = drafter_tensors(target) | {"mask_hidden": np.ones(shape, np.float32)}
    fields = original_fields(target, mask_token_id=3)
    if shape == (3, 128):
        read(tmp_path, target, fields, tensors)
        return
    with pytest.raises(CheckpointError, match="'mask_hidden' has shape"):
        read(tmp_path, target, fields, tensors)


def test_boundaries_that_no_field_says_are_the_default(tmp_path, target, caplog):
    fields = zlab_fields(target)
    del fields["dflash_config"]["target_layer_ids"]
    with pytest.raises(CheckpointError, match="'target_layer_ids': is missing, and the target's 4 layers are too few"):
        read(tmp_path, target, fields)
    fields["num_hidden_layers"] = 1
    tensors = {name: each for name, each in block_tensors(target).items() if not name.startswith("layers.1")}
    tensors["fc.weight"] = np.ascontiguousarray(tensors["fc.weight"][:, : target.hidden_size])
    assert read(tmp_path, target, fields, tensors).boundaries == (3,)
    assert "takes features after layers [3], as no field says where" in caplog.text


@pytest.mark.parametrize(
    ("changes", "own", "said"),
    [
        ({"block_size": 1}, {}, "field 'block_size': must be a whole number from 2 to 64"),
        ({}, {"mask_token_id": 512}, "field 'dflash_config.mask_token_id': must be a whole number from 0 to 511"),
        ({}, {"mask_token_id": None}, "field 'mask_token_id': is missing"),
        (
            {},
            {"target_layer_ids": [0, 1, 4]},
            "field 'dflash_config.target_layer_ids': must be 1 to 8 whole numbers from -1 to 3",
        ),
        ({}, {"attention_sink_bias": True}, "field 'dflash_config.attention_sink_bias': only false is supported"),
        ({"is_neox_style": False}, {}, "field 'is_neox_style': only true is supported"),
        ({"hidden_size": 64}, {}, "field 'hidden_size': must be the target's, 128"),
        ({"vocab_size": 511}, {}, "must be the target's vocabulary, 512, is 511"),
        ({"layer_types": ["sliding_attention"] * 3}, {}, "field 'layer_types': must be 2 of"),
        ({"num_hidden_layers": 17}, {"use_swa": True}, "must be a whole number from 1 to 16"),
        ({"model_type": "mamba"}, {}, "'mamba' is not supported; allowed are llama, qwen3"),
        ({"is_causal": 3}, {}, "field 'is_causal': must be true or false"),
        ({"num_target_layers": 36}, {}, "field 'num_target_layers': must be the target's, 4, is 36"),
        ({}, {"attention_value_scale": 0.6}, "field 'dflash_config.attention_value_scale': only 1 is supported"),
        ({}, {"use_swa": True}, "'swa_window_size': is missing, and so is sliding_window, beside use_swa"),
        (
            {},
            {"use_swa": True, "swa_window_size": 0},
            "field 'dflash_config.swa_window_size': must be a whole number from 1",
        ),
        ({"architectures": ["DFlash2DraftModel"]}, {}, "no drafter of a kind that is served"),
    ],
)
def test_fields_out_of_range_or_not_carried_out_are_refused(tmp_path, target, changes, own, said):
    fields = zlab_fields(target, **changes)
    fields["dflash_config"] |= own
    with pytest.raises(CheckpointError, match=said):
        read(tmp_path, target, fields)


def test_an_embedding_of_the_mask_of_its_own_is_refused(tmp_path, target):
    write_drafter(tmp_path, zlab_fields(target), block_tensors(target))
    (tmp_path / "mask_embedding.pt").touch()
    with pytest.raises(CheckpointError, match=r"mask_embedding\.pt: an embedding of the mask token of its own"):
        load_drafter(tmp_path, target)


def test_a_folder_of_deepspec(tmp_path, target):
    hidden, size = target.hidden_size, target.vocab_size
    tables = {name: np.ones((size, hidden), np.float32) for name in ("embed_tokens.weight", "lm_head.weight")}
    tensors = block_tensors(target) | tables | markov_tensors(target, size, hidden)
    drafter = read(tmp_path, target, deepspec_fields(target, target_layer_ids=[-1, 1, 3]), tensors)
    features = drafter.checkpoint.config.features
    assert drafter.boundaries == (0, 2, 4)
    assert (features.own_embedding, features.head_size) == (True, size)
    assert features.block == FeatureBlock(
        size=SIZE, mask_token=MASK, first_predicts=True, markov_rank=RANK, has_confidence=True
    )
    assert drafter.num_predictions == SIZE
    weights = dict(drafter.checkpoint.weights())
    assert np.array_equal(weights["markov_out"], tensors["markov_head.markov_w2.weight"])
    assert np.array_equal(weights["confidence"], tensors["confidence_head.proj.weight"])


def test_dflash_of_deepspec_is_dspark_without_its_heads(tmp_path, target):
    fields = deepspec_fields(target, markov_rank=0, markov_head_type=None, enable_confidence_head=False)
    drafter = read(tmp_path, target, fields)
    assert drafter.checkpoint.config.features.block == FeatureBlock(size=SIZE, mask_token=MASK, first_predicts=True)


def test_eagle3_of_deepspec(tmp_path, target):
    tensors = drafter_tensors(target, layer="layers.0", head_size=target.vocab_size)
    del tensors["d2t"], tensors["t2d"]
    tensors |= {f"layers.0.self_attn.{name}_norm.weight": np.ones(32, np.float32) for name in "qk"}
    fields = layer_fields(target, "qwen3") | {"architectures": ["Qwen3Eagle3Model"], "ttt_length": 7}
    drafter = read(tmp_path, target, fields | {"target_layer_ids": [-1, 1, 3]}, tensors)
    assert drafter.boundaries == (0, 2, 4)
    assert drafter.num_predictions == 7
    assert not drafter.checkpoint.config.features.norm_residual


@pytest.mark.parametrize(
    ("said", "trained", "first_predicts"),
    [({"sample_from_anchor": True}, None, True), ({}, SIZE, True), ({}, SIZE - 1, False), ({}, None, False)],
)
def test_dspark_of_speculators_without_its_confidence(tmp_path, target, caplog, said, trained, first_predicts):
    tensors = block_tensors(target, head_size=SMALL) | markov_tensors(target, SMALL, target.hidden_size)
    tensors = {name: each for name, each in tensors.items() if not name.startswith("confidence")}
    changes = {"speculators_model_type": "dspark", "markov_rank": RANK, "enable_confidence_head": False, **said}
    if trained is not None:
        changes["proposal_methods"] = [{"speculative_tokens": trained}]
    drafter = read(tmp_path, target, speculators_block_fields(target, **changes), tensors)
    block = FeatureBlock(size=SIZE, mask_token=MASK, first_predicts=first_predicts, markov_rank=RANK)
    assert drafter.checkpoint.config.features.block == block
    assert drafter.num_predictions == block.most_predictions
    assert ("sample_from_anchor is taken as" in caplog.text) == (not said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"markov_head_type": "gated"}, "field 'markov_head_type': 'gated' is not supported; allowed are vanilla"),
        ({"markov_rank": -1}, "field 'markov_rank': must be a whole number from 0 to 4096"),
        ({"markov_rank": 0}, "field 'enable_confidence_head': must be false where markov_rank is 0"),
        ({"confidence_head_with_markov": False}, "field 'enable_confidence_head': must be false"),
        (
            {"markov_rank": RANK, "dflash_config": {"markov_head_type": "rnn"}},
            "field 'dflash_config.markov_head_type': 'rnn' is not supported",
        ),
        ({"markov_rank": 32}, r"markov_w1\.weight' has shape"),
    ],
)
def test_what_is_not_carried_out_of_dspark_is_refused(tmp_path, target, changes, said):
    tensors = block_tensors(target) | markov_tensors(target, target.vocab_size, target.hidden_size)
    with pytest.raises(CheckpointError, match=said):
        read(tmp_path, target, deepspec_fields(target, **changes), tensors)


@pytest.mark.parametrize("shape", [(1, -1), (1, 1, -1)])
def test_a_folder_of_p_eagle(tmp_path, target, shape):
    tensors = drafter_tensors(target, layer="layers.0")
    tensors |= {f"layers.0.self_attn.{name}_norm.weight": np.ones(32, np.float32) for name in "qk"}
    mask = np.arange(3 * target.hidden_size, dtype=np.float32)
    drafter = read(tmp_path, target, masked_fields(target), tensors | {"mask_hidden": mask.reshape(shape)})
    assert drafter.checkpoint.config.features.block == FeatureBlock(
        size=5, mask_token=MASK, continues_rows=True, first_predicts=True
    )
    assert drafter.num_predictions == 5, "as it was trained"
    assert not drafter.checkpoint.config.features.norm_residual
    assert np.array_equal(dict(drafter.checkpoint.weights())["mask_features"], mask)


@pytest.mark.parametrize("name", ["mask_token_id", "pard_token", "ptd_token_id"])
def test_a_folder_of_p_eagle_of_the_original_kind(tmp_path, target, name):
    tensors = drafter_tensors(target) | {"mask_hidden": np.ones((1, 3 * target.hidden_size), np.float32)}
    drafter = read(tmp_path, target, original_fields(target, **{name: 511}), tensors)
    assert drafter.checkpoint.config.features.block.mask_token == 511
    assert drafter.num_predictions == 8
    with pytest.raises(CheckpointError, match=f"'{name}': must be a whole number from 0 to 511"):
        read(tmp_path, target, original_fields(target, **{name: 512}), tensors)
    del tensors["mask_hidden"]
    with pytest.raises(CheckpointError, match="'mask_hidden' is missing; P-EAGLE needs it"):
        read(tmp_path, target, original_fields(target, **{name: 1}), tensors)
