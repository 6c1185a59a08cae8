"""A config.json is taken at its word: what would change the computation is carried out or refused, never ignored."""

import json
import logging
import re
from pathlib import Path

import pytest
from transformers import CONFIG_MAPPING

from services.engine.checkpoint.architectures.table import ARCHITECTURES, read_architecture
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields
from tests.harness.models.checkpoints import Kind, copy_of, edit_json, random_checkpoint


@pytest.fixture
def folder(tmp_path) -> Path:
    return copy_of(random_checkpoint(Kind.LLAMA), tmp_path)


def refusal(folder: Path, **changes: object) -> str:
    edit_json(folder / "config.json", **changes)
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(folder)
    return str(refused.value)


# The sizes


@pytest.mark.parametrize(
    ("field", "value", "most"),
    [
        ("head_dim", 2**31 - 2, 8192),
        ("num_hidden_layers", 10**7, 1024),
        ("num_attention_heads", 2**20, 1024),
        ("num_key_value_heads", 2**20, 1024),
        ("hidden_size", 2**30, 2**17),
        ("intermediate_size", 2**30, 2**20),
        ("vocab_size", 2**31 - 1, 2**22),
    ],
)
def test_a_size_beyond_any_model_is_refused_at_once(folder, field, value, most):
    expected = f"config.json: field '{field}': must be a whole number from 1 to {most}, is {value}"
    assert expected in refusal(folder, **{field: value})


@pytest.mark.parametrize("value", [1e308, 1e-300, 0.0, float("nan"), float("inf"), "1"])
def test_a_number_that_float32_does_not_hold_is_refused(folder, value):
    for field in ("rms_norm_eps", "rope_theta"):
        said = refusal(folder, rope_parameters=None, **{field: value})
        assert f"field '{field}': must be a finite number above 0, from 1e-12 to 1e+12, is {value!r}" in said
        edit_json(folder / "config.json", **{field: 1e-6})


# What it is


@pytest.mark.parametrize("model_type", [None, "mistral", "granite", "smollm3", 7])
def test_a_model_type_other_than_the_architecture_s_is_refused(folder, model_type):
    said = refusal(folder, model_type=model_type)
    assert f"field 'model_type': must be 'llama', as architectures is LlamaForCausalLM, is {model_type!r}" in said


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=lambda each: each.model_type)
def test_model_types_are_those_of_transformers(architecture):
    names = [name for name, each in ARCHITECTURES.items() if each is architecture]
    assert CONFIG_MAPPING[architecture.model_type].model_type == architecture.model_type
    assert len(names) == 1


def test_a_mask_that_is_not_causal_is_refused(folder):
    assert "field 'is_causal': only true is supported, is False" in refusal(folder, is_causal=False)
    edit_json(folder / "config.json", is_causal=True)
    load_checkpoint(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sliding_window", 4096),
        ("layer_types", ["full_attention", "sliding_attention"] * 2),
        ("no_rope_layers", [1, 1, 1, 0]),
        ("embedding_multiplier", 12.0),
        ("logits_scaling", 8.0),
        ("residual_multiplier", 0.22),
        ("attention_multiplier", 0.015625),
        ("logit_scale", 0.0625),
        ("clip_qkv", 8.0),
        ("use_qk_norm", True),
        ("attention_chunk_size", 8192),
        ("final_logit_softcapping", 30.0),
        ("use_parallel_residual", True),
        ("per_layer_config", {"0": {"num_key_value_heads": 1}}),
    ],
)
def test_a_field_that_would_change_the_computation_is_refused(folder, field, value):
    assert f"config.json: field '{field}': only " in refusal(folder, **{field: value})


@pytest.mark.parametrize(
    "harmless",
    [
        {"mlp_bias": False, "sliding_window": None, "layer_types": ["full_attention"] * 4, "use_sliding_window": False},
        {
            "embedding_multiplier": 1.0,
            "logits_scaling": 1,
            "no_rope_layers": [],
            "clip_qkv": None,
            "use_qk_norm": False,
        },
        {"attention_dropout": 0.1, "initializer_range": 0.5, "torch_dtype": "float16", "pretraining_tp": 2},
    ],
)
def test_a_field_that_changes_nothing_is_taken_in_silence(folder, harmless, caplog):
    (folder / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | harmless))
    load_checkpoint(folder)
    assert not caplog.records


def test_unknown_fields_are_named_once(folder, caplog):
    edit_json(folder / "config.json", vendor_note="yes", rope_of_dreams=3)
    load_checkpoint(folder)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "config.json: unknown fields, which are ignored: ['rope_of_dreams', 'vendor_note']" in caplog.text


SIBLINGS = """
    apertus arcee afmoe cohere cohere2 deepseek_v3 dots1 exaone4 glm glm4 gpt_oss granite granitemoe jamba
    llama4_text minimax mixtral nemotron olmo3 olmoe phi phimoe qwen2_moe qwen3_moe qwen3_next
    recurrent_gemma smollm3 stablelm starcoder2 zamba2
"""


@pytest.mark.parametrize("model_type", [*re.findall(r"\w+", SIBLINGS)])
def test_a_sibling_under_another_s_label_is_refused(model_type):
    """As transformers writes it with all of its defaults, but for the two fields that say what it is.

    An OLMo's fields are a Llama's; it is refused for want of its norms' weights.
    """
    fields = json.loads(CONFIG_MAPPING[model_type]().to_json_string(use_diff=False))
    for label in ("LlamaForCausalLM", "MistralForCausalLM"):
        labelled = fields | {"architectures": [label], "model_type": ARCHITECTURES[label].model_type}
        with pytest.raises(CheckpointError, match=r"config\.json: (rope_parameters: )?field '"):
            read_architecture(JsonFields(labelled, "config.json"))


def test_fields_left_out_have_transformers_defaults(folder):
    fields = json.loads((folder / "config.json").read_text())
    del fields["rms_norm_eps"]
    (folder / "config.json").write_text(json.dumps(fields))
    assert load_checkpoint(folder).config.norm_eps == CONFIG_MAPPING["llama"]().rms_norm_eps


# generation_config.json


def test_settings_that_are_not_carried_out_are_named_once(folder, caplog):
    settings = {
        "sequence_bias": [[[7], 0.5]],
        "suppress_tokens": [7],
        "bad_words_ids": [[1, 2]],
        "no_repeat_ngram_size": 3,
        "typical_p": 0.9,
        "top_h": 0.4,
        "forced_bos_token_id": 0,
        "forced_decoder_ids": [[1, 7]],
        "temperature": 0.5,
        "bos_token_id": 1,
    }
    (folder / "generation_config.json").write_text(json.dumps(settings))
    load_checkpoint(folder)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{folder / 'generation_config.json'}: settings that are not supported: "
        "sequence_bias [[[7], 0.5]], top_h 0.4, forced_decoder_ids [[1, 7]]"
    )


def test_settings_that_are_off_are_not_named(folder, caplog):
    off = {
        "suppress_tokens": None,
        "bad_words_ids": [],
        "no_repeat_ngram_size": 0,
        "typical_p": 1.0,
        "top_h": 1.0,
        "num_beams": 1,
    }
    (folder / "generation_config.json").write_text(json.dumps(off))
    load_checkpoint(folder)
    assert not caplog.records
