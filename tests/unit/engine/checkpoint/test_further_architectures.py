"""Further architectures' configurations, and classes that are not served: each refusal gives a reason and advice."""

import json
from pathlib import Path

import pytest
from transformers import CONFIG_MAPPING

from services.engine.checkpoint.architectures.table import ARCHITECTURES
from services.engine.checkpoint.architectures.text_part import TEXT_PARTS
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import attention_layers
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights, refusal
from tests.harness.models.further_checkpoints import Further, further_checkpoint

_ROPE = ("rope_theta", "rope_local_base_freq", "rope_parameters")


@pytest.fixture
def edited(tmp_path):
    """Copies a checkpoint and sets fields of its config.json."""

    def edit(kind: Further, **changes: object) -> Path:
        folder = copy_of(further_checkpoint(kind), tmp_path)
        edit_json(folder / "config.json", **changes)
        return folder

    return edit


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=lambda each: each.model_type)
def test_fields_left_out_have_the_defaults_of_transformers(architecture):
    switch = {"use_sliding_window": True} if "use_sliding_window" in architecture.fields else {}
    theirs = CONFIG_MAPPING[architecture.model_type](**switch)
    saved = theirs.to_dict()
    for name, value in architecture.defaults.items():
        if name == "global_head_dim":
            assert theirs.per_layer_config["full_attention"].head_dim == value
        elif name not in _ROPE:
            assert (saved[name] if name in saved else getattr(theirs, name, None)) == value, name


def test_rotary_tables_that_are_left_out_are_those_of_gemma_4():
    for name in ("Gemma4ForCausalLM", "Gemma4UnifiedForCausalLM"):
        ours = ARCHITECTURES[name]
        assert CONFIG_MAPPING[ours.model_type]().rope_parameters == ours.defaults["rope_parameters"]


def test_a_theta_that_is_left_out_is_that_of_transformers():
    for model_type in ("smollm3", "olmo3", "mixtral"):
        (architecture,) = (each for each in ARCHITECTURES.values() if each.model_type == model_type)
        assert CONFIG_MAPPING[model_type].default_theta == architecture.defaults["rope_theta"]
    gemma3 = ARCHITECTURES["Gemma3ForCausalLM"].defaults
    both = {"global": gemma3["rope_theta"], "local": gemma3["rope_local_base_freq"]}
    assert CONFIG_MAPPING["gemma3_text"].default_theta == both
    theirs = CONFIG_MAPPING["ministral3"]().rope_parameters
    ours = ARCHITECTURES["Ministral3ForCausalLM"].defaults["rope_parameters"]
    assert {name: theirs[name] for name in ours if name != "type"} == {k: v for k, v in ours.items() if k != "type"}


def test_text_parts_are_named_as_in_transformers():
    for part in TEXT_PARTS.values():
        assert part.model_type in CONFIG_MAPPING
        for model_type, name in part.classes.items():
            assert ARCHITECTURES[name].model_type == model_type


def test_smollm3_rotates_three_layers_of_four_by_default(edited):
    layers = load_checkpoint(edited(Further.SMOLLM3, no_rope_layers=None)).config.layers
    assert layers == attention_layers([0] * 4, (0, 0, 0, 1))


@pytest.mark.parametrize("turns", [[1, 1], [1, 1, 1, 2], "all", [[1]] * 4])
def test_bad_layers_without_rope(edited, turns):
    assert "'no_rope_layers': must be 4 of 0 and 1" in refusal(edited(Further.SMOLLM3, no_rope_layers=turns))


def test_ministral3_is_served_within_its_first_context_only(edited):
    folder = edited(Further.MINISTRAL3)
    assert load_checkpoint(folder).config.max_position == 256
    assert "'llama_4_scaling_beta': is carried out up to 256 positions; --context-length" in refusal(folder, 257)


def test_a_context_beyond_a_rope_factors_reach_is_not_served(edited):
    assert load_checkpoint(edited(Further.SMOLLM3), context_length=10_000).config.max_position == 256


def test_a_text_part_of_another_type_is_refused(edited):
    folder = edited(Further.GEMMA3_PICTURES)
    text = json.loads((folder / "config.json").read_text())["text_config"]
    edit_json(folder / "config.json", text_config=text | {"model_type": "llama"})
    assert "text_config: field 'model_type': 'llama' is not supported; allowed are gemma3_text" in refusal(folder)


def test_a_text_part_without_sizes_has_those_of_transformers(edited):
    folder = edited(Further.GEMMA3_PICTURES)
    text = json.loads((folder / "config.json").read_text())["text_config"]
    few = {name: text[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "model_type")}
    edit_json(folder / "config.json", text_config=few)
    assert "by config.json it must be [262208, 128]" in refusal(folder)


def test_a_tensor_of_the_text_that_has_no_place_is_refused(edited):
    folder = edited(Further.MISTRAL3_PICTURES)

    def edit(tensors):
        (prefix,) = {name.split("layers.0.")[0] for name in tensors if name.endswith("layers.0.mlp.up_proj.weight")}
        tensors[f"{prefix}layers.0.self_attn.sinks"] = tensors[f"{prefix}norm.weight"].clone()

    edit_weights(folder, edit)
    assert "layers.0.self_attn.sinks' has no place" in refusal(folder)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["MambaForCausalLM", "KimiLinearForCausalLM", "JambaForCausalLM", "MiniMaxForCausalLM"], "recurrent state"),
        (["Lfm2VlForConditionalGeneration"], "images or video beside text"),
        (["Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"], "images or video beside text"),
        (["LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration"], "images or video beside text"),
        (["MllamaForConditionalGeneration", "Idefics3ForConditionalGeneration"], "images or video beside text"),
        (["ViTForImageClassification", "CLIPModel", "DetrForObjectDetection", "Dinov2Backbone"], "generates no text"),
        (["WhisperForConditionalGeneration", "VoxtralForConditionalGeneration", "Wav2Vec2ForCTC"], "sound"),
        (["BertModel", "ModernBertForMaskedLM", "LlamaForSequenceClassification"], "encodes texts"),
        (["XLMRobertaModel", "RobertaForMaskedLM", "DPRQuestionEncoder", "Qwen3Model"], "encodes texts"),
        (["T5ForConditionalGeneration", "BartForConditionalGeneration"], "output of an encoder"),
        (
            [
                "DeepseekForCausalLM",
                "GraniteMoeForCausalLM",
                "Ernie4_5_MoeForCausalLM",
                "PhimoeForCausalLM",
                "Dots1ForCausalLM",
            ],
            "mixture of experts",
        ),
        (["DeepseekV32ForCausalLM", "MiniCPM3ForCausalLM"], "latent"),
        (["PhiForCausalLM", "GPT2LMHeadModel", "FalconForCausalLM", "OlmoForCausalLM"], "older, unsupported structure"),
    ],
)
def test_unsupported_classes_are_refused_by_name_with_advice(edited, names, words):
    folder = edited(Further.GRANITE)
    for name in names:
        edit_json(folder / "config.json", architectures=[name])
        said = refusal(folder)
        assert f"'architectures': ['{name}'] is not supported: " in said
        assert words in said
        assert "allowed is one of LlamaForCausalLM" in said
