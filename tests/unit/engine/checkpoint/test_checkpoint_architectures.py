"""Every architecture's config.json is read as transformers reads it, in its present form and in older ones."""

import json

import numpy as np
import pytest
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Activation, ModelConfig, QkNorm, Rope, attention_layers
from tests.harness.models.checkpoints import (
    CONTEXT_LENGTH,
    LONGROPE_ORIGINAL,
    VOCAB_SIZE,
    Kind,
    copy_of,
    edit_json,
    random_checkpoint,
)


def config_of(kind: Kind) -> ModelConfig:
    return load_checkpoint(random_checkpoint(kind)).config


@pytest.fixture
def edited(tmp_path):
    """Copies a checkpoint, sets fields of its config.json, and returns the configuration."""

    def edit(kind: Kind, **changes: object) -> ModelConfig:
        folder = copy_of(random_checkpoint(kind), tmp_path)
        edit_json(folder / "config.json", **changes)
        return load_checkpoint(folder).config

    return edit


def saved_fields(kind: Kind) -> dict[str, object]:
    fields: dict[str, object] = json.loads((random_checkpoint(kind) / "config.json").read_text())
    return fields


def test_llama():
    config = config_of(Kind.LLAMA)
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (4, 4, 2, 32)
    assert (config.vocab_size, config.max_position) == (VOCAB_SIZE, CONTEXT_LENGTH)
    assert config.activation is Activation.SILU
    assert not config.tied_embeddings
    assert not config.attention_bias


def test_mistral():
    config = config_of(Kind.MISTRAL)
    assert config.layers == attention_layers((16, 16, 16, 16))
    assert config.head_dim == 48


def test_mistral_without_a_window(tmp_path):
    folder = copy_of(random_checkpoint(Kind.MISTRAL), tmp_path)
    fields = saved_fields(Kind.MISTRAL) | {"sliding_window": None}
    (folder / "config.json").write_text(json.dumps(fields))
    assert load_checkpoint(folder).config.layers == attention_layers((0, 0, 0, 0))


def test_head_dim_defaults_to_hidden_size_divided_by_heads(edited):
    assert edited(Kind.LLAMA, head_dim=None) == config_of(Kind.LLAMA)


def test_qwen2():
    config = config_of(Kind.QWEN2)
    assert config.attention_bias
    assert config.tied_embeddings
    assert config.layers == attention_layers((0, 0, 16, 16))


def test_qwen3():
    config = config_of(Kind.QWEN3)
    assert config.qk_norm is QkNorm.HEAD
    assert config.tied_embeddings
    assert config.layers == attention_layers((0, 0, 0, 0))


@pytest.mark.parametrize("kind", [Kind.QWEN2, Kind.QWEN3])
def test_qwen_windows_begin_at_a_layer(edited, kind):
    changes = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 3, "layer_types": None}
    assert edited(kind, **changes).layers == attention_layers((0, 0, 0, 16))


def test_qwen_windows_are_off_unless_they_are_asked_for(edited):
    changes = {"use_sliding_window": False, "sliding_window": 16, "max_window_layers": 0, "layer_types": None}
    assert edited(Kind.QWEN2, **changes).layers == attention_layers((0, 0, 0, 0))


def test_layer_types_come_before_max_window_layers(edited):
    types = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
    assert edited(Kind.QWEN2, layer_types=types, max_window_layers=None).layers == attention_layers((16, 0, 0, 16))


def test_phi3():
    config = config_of(Kind.PHI3)
    assert config.layers == attention_layers((16, 16, 16, 16))
    assert not config.attention_bias
    assert config.query_scale == 32**-0.5


def test_olmo2():
    config = config_of(Kind.OLMO2)
    assert config.qk_norm is QkNorm.FULL
    assert (config.pre_norm, config.post_norm) == (False, True)


def test_gemma2():
    config = config_of(Kind.GEMMA2)
    assert config.layers == attention_layers((16, 0, 16, 0))
    assert (config.attention_softcap, config.logit_softcap) == (4.0, 12.0)
    assert config.query_scale == 24**-0.5
    assert config.embedding_scale == config.hidden_size**0.5
    assert (config.pre_norm, config.post_norm) == (True, True)
    assert config.activation is Activation.GELU_TANH


def test_gemma2_windows_alternate_without_layer_types(edited):
    assert edited(Kind.GEMMA2, layer_types=None) == config_of(Kind.GEMMA2)


def test_gemma3():
    config = config_of(Kind.GEMMA3)
    assert config.layers == attention_layers((16, 16, 16, 16, 16, 0), (1, 1, 1, 1, 1, 0))
    assert config.qk_norm is QkNorm.HEAD
    assert (config.attention_softcap, config.logit_softcap) == (0.0, 0.0)
    assert config.query_scale == 16**-0.5
    assert config.embedding_scale == config.hidden_size**0.5
    assert config.tied_embeddings


@pytest.mark.parametrize(("period", "windows"), [(None, (16, 16, 16, 16, 16, 0)), (3, (16, 16, 0, 16, 16, 0))])
def test_gemma3_windows_follow_a_pattern_without_layer_types(edited, period, windows):
    config = edited(Kind.GEMMA3, layer_types=None, sliding_window_pattern=period)
    assert config.layers == attention_layers(windows, [int(window > 0) for window in windows])


# Rotary tables


def assert_same_rope(rope: Rope, frequencies, scale: float) -> None:
    np.testing.assert_allclose(rope.frequencies, frequencies.numpy(), rtol=5e-7)
    assert rope.scale == pytest.approx(scale, rel=1e-15)


@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.LLAMA_LINEAR])
def test_scaled_frequencies_are_those_of_transformers(kind):
    config = AutoConfig.from_pretrained(random_checkpoint(kind))
    (rope,) = config_of(kind).ropes
    assert_same_rope(rope, *ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]](config, "cpu"))


def test_old_and_new_rope_settings_mean_the_same(edited):
    settings = dict(saved_fields(Kind.LLAMA)["rope_parameters"])
    theta = settings.pop("rope_theta")
    old = edited(Kind.LLAMA, rope_parameters=None, rope_theta=theta, rope_scaling=settings)
    assert old == config_of(Kind.LLAMA)


def test_empty_rope_scaling_is_none(edited):
    assert edited(Kind.LLAMA, rope_scaling={}) == config_of(Kind.LLAMA)


@pytest.mark.parametrize("extra", [{}, {"factor": 3.0}, {"factor": 0.5}, {"attention_factor": 1.25}])
@pytest.mark.parametrize("context_length", [LONGROPE_ORIGINAL, LONGROPE_ORIGINAL + 1, None])
def test_longrope_is_that_of_transformers(tmp_path, extra, context_length):
    folder = copy_of(random_checkpoint(Kind.PHI3_LONGROPE), tmp_path)
    settings = dict(saved_fields(Kind.PHI3_LONGROPE)["rope_parameters"])
    del settings["factor"]
    edit_json(folder / "config.json", rope_parameters=settings | extra)
    theirs = AutoConfig.from_pretrained(folder)
    seq_len = context_length or CONTEXT_LENGTH
    config = load_checkpoint(folder, context_length=context_length).config
    assert config.max_position == seq_len
    (rope,) = config.ropes
    assert len(rope.frequencies) == 12
    assert_same_rope(rope, *ROPE_INIT_FUNCTIONS["longrope"](theirs, "cpu", seq_len=seq_len))


def test_old_and_new_longrope_settings_mean_the_same(edited):
    settings = dict(saved_fields(Kind.PHI3_LONGROPE)["rope_parameters"])
    settings["type"] = "su"
    partial, theta = settings.pop("partial_rotary_factor"), settings.pop("rope_theta")
    del settings["rope_type"], settings["original_max_position_embeddings"]
    old = edited(
        Kind.PHI3_LONGROPE,
        rope_parameters=None,
        rope_scaling=settings,
        rope_theta=theta,
        partial_rotary_factor=partial,
    )
    assert old == config_of(Kind.PHI3_LONGROPE)


def test_gemma3_has_a_global_and_a_local_table():
    plain_global, plain_local = ([theta ** (-i / 32) for i in range(0, 32, 2)] for theta in (1e6, 1e4))
    global_rope, local_rope = config_of(Kind.GEMMA3).ropes
    np.testing.assert_allclose(global_rope.frequencies, np.array(plain_global) / 8, rtol=5e-7)
    np.testing.assert_allclose(local_rope.frequencies, plain_local, rtol=5e-7)


def test_old_and_new_gemma3_rope_settings_mean_the_same(edited):
    scaling = {"rope_type": "linear", "factor": 8.0}
    both = {"rope_theta": 1e6, "rope_local_base_freq": 1e4}
    assert edited(Kind.GEMMA3, rope_parameters=None, rope_scaling=scaling, **both) == config_of(Kind.GEMMA3)


def test_gemma3_thetas_have_defaults(edited):
    scaling = {"rope_type": "linear", "factor": 8.0}
    assert edited(Kind.GEMMA3, rope_parameters=None, rope_scaling=scaling) == config_of(Kind.GEMMA3)


def test_a_shorter_context_changes_the_longest_position_alone():
    full, short = (
        load_checkpoint(random_checkpoint(Kind.LLAMA), context_length=length) for length in (None, CONTEXT_LENGTH // 2)
    )
    assert (full.config.max_position, short.config.max_position) == (CONTEXT_LENGTH, CONTEXT_LENGTH // 2)
    assert full.weights_digest() == short.weights_digest()


def test_a_context_longer_than_the_checkpoints_is_not_served():
    checkpoint = load_checkpoint(random_checkpoint(Kind.LLAMA), context_length=2 * CONTEXT_LENGTH)
    assert checkpoint.config.max_position == CONTEXT_LENGTH


def test_the_choice_of_longrope_factors_is_part_of_the_digest():
    short, long = (
        load_checkpoint(random_checkpoint(Kind.PHI3_LONGROPE), context_length=length).weights_digest()
        for length in (LONGROPE_ORIGINAL, LONGROPE_ORIGINAL + 1)
    )
    assert short != long
