"""Gemma 4's configuration: how it is read from both forms of its fields and from files, and what is refused."""

import json

import numpy as np
import pytest
import torch
import transformers

from services.engine.checkpoint.architectures.table import read_architecture
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, Experts
from services.engine.checkpoint.weight_shapes import count_active_parameters, count_parameters
from services.engine.config import EngineConfig
from services.engine.files.json_fields import JsonFields
from tests.harness.models import gguf_files
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights, refusal
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.gguf_files import write_gguf

SLIDING = Attention(window=16, rope=1)
WHOLE = Attention(head_dim=40, num_kv_heads=1, values_are_keys=True)
PUBLISHED = {
    **{"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "vocab_size": 262_144},
    **{"hidden_activation": "gelu_pytorch_tanh", "global_head_dim": 512, "head_dim": 256, "rms_norm_eps": 1e-06},
    **{"max_position_embeddings": 262_144, "final_logit_softcapping": 30.0, "tie_word_embeddings": True},
    **{"attention_bias": False, "use_bidirectional_attention": "vision", "sliding_window": 1024},
    **{"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "vocab_size_per_layer_input": 262_144},
    "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
}


def test_heads_alike_in_all_layers_are_not_listed(tmp_path):
    config = transformers.Gemma4TextConfig(**PUBLISHED | {"global_head_dim": 256}, num_hidden_layers=12)
    saved = config.to_dict()
    assert not saved["per_layer_config"]
    _, found = read_architecture(JsonFields(saved | {"architectures": ["Gemma4ForCausalLM"]}, "config.json"))
    assert {each.head_dim for each in found.layers if isinstance(each, Attention)} == {None, 256}


def per_layer(**heads: int) -> dict[str, object]:
    """Fields with such heads for both layers without a window."""
    return {"per_layer_config": {"1": heads, "3": heads}}


def test_layers_without_a_window_have_heads_of_their_own():
    config = load_checkpoint(further_checkpoint(Further.GEMMA4)).config
    assert config.layers == (SLIDING, WHOLE) * 2
    assert (config.value_norm, config.layer_scale, config.query_scale) == (True, True, 1.0)
    assert (config.layer_input_size, config.logit_softcap, config.experts) == (0, 30.0, None)
    of_whole, of_sliding = config.ropes
    assert len(of_whole.frequencies) == 20
    assert of_whole.frequencies[5:] == (0.0,) * 15, "a quarter of a head turns"
    assert of_whole.frequencies[4] == pytest.approx(1_000_000 ** (-8 / 40))
    assert len(of_sliding.frequencies) == 8


def test_published_fields_mean_the_same_as_those_of_transformers(tmp_path):
    """transformers 5 writes the heads layer by layer."""
    folder = copy_of(further_checkpoint(Further.GEMMA4), tmp_path)
    assert "per_layer_config" in json.loads((folder / "config.json").read_text())
    expected = load_checkpoint(folder)
    own = {"global_head_dim": 40, "num_global_key_value_heads": 1}
    edit_json(folder / "config.json", per_layer_config=None, **own)
    assert load_checkpoint(folder).config == expected.config
    edit_json(folder / "config.json", attention_k_eq_v=False)
    whole = Attention(head_dim=40)
    assert read_architecture(JsonFields.from_file(folder / "config.json"))[1].layers == (SLIDING, whole) * 2


def test_experts_stand_beside_the_mlp():
    config = load_checkpoint(further_checkpoint(Further.GEMMA4_MOE)).config
    assert config.intermediate_size == 96
    assert config.experts == Experts(
        count=8, per_token=3, size=40, are_normalised=True, have_scales=True, have_norms=True
    )


def test_the_last_layers_read_keys_and_values_of_others(tmp_path):
    folder = copy_of(further_checkpoint(Further.GEMMA4_SMALL), tmp_path)
    checkpoint = load_checkpoint(folder)
    whole = Attention(head_dim=40)
    shared = [Attention(window=16, rope=1, kv_layer=2, mlp_size=192), Attention(head_dim=40, kv_layer=3, mlp_size=192)]
    assert checkpoint.config.layers == (SLIDING, whole, SLIDING, whole, *shared)
    assert checkpoint.config.layer_input_size == 12
    for kv, sizes in (("f32", 4), ("bf16", 2)):
        engine = EngineConfig(model=str(folder), isa="portable", threads=1, kv=kv)
        assert engine.block_bytes(checkpoint.config) == 32 * 2 * 2 * (16 + 40) * sizes, "they keep none of their own"
    digest = checkpoint.weights_digest()
    name = "model.layers.4.self_attn.k_proj.weight"
    edit_weights(folder, lambda tensors: tensors.update({name: torch.ones(16, 64)}))
    assert load_checkpoint(folder).weights_digest() == digest, "published folders have keys that nothing reads"


@pytest.mark.parametrize(
    ("kind", "fields", "problem"),
    [
        (Further.GEMMA4, {"use_bidirectional_attention": "all"}, "'use_bidirectional_attention': only null and"),
        (
            Further.GEMMA4,
            {"global_head_dim": 40, "per_layer_config": {"1": {"head_dim": 40}}},
            "must have the same for",
        ),
        (
            Further.GEMMA4,
            {"per_layer_config": {"1": {"head_dim": 40}, "3": {"head_dim": 32}}},
            "must have the same for",
        ),
        (Further.GEMMA4, {"per_layer_config": {"1" * 5000: {}, "3": {}}}, "must have the same for each layer of"),
        (Further.GEMMA4, per_layer(window=3), "'window': is not supported"),
        (
            Further.GEMMA4,
            per_layer(head_dim=41),
            "must be even, for rotary",
        ),
        (
            Further.GEMMA4,
            per_layer(head_dim=0),
            "per_layer_config: 1: field 'head_dim': must be",
        ),
        (Further.GEMMA4, {"attention_bias": True}, "q_proj.bias' is missing"),
        (Further.GEMMA4, {"final_logit_softcapping": -1.0}, "'final_logit_softcapping': must be a finite number"),
        (Further.GEMMA4_MOE, {"top_k_experts": 9}, "'top_k_experts': must be a whole number from 1 to 8, is 9"),
        (Further.GEMMA4_MOE, {"enable_moe_block": False}, "has no place in Gemma4ForCausalLM"),
        (Further.GEMMA4_SMALL, {"num_kv_shared_layers": 5}, "'num_kv_shared_layers': leaves layers without any of"),
        (
            Further.GEMMA4_SMALL,
            {"num_kv_shared_layers": 6},
            "'num_kv_shared_layers': must be a whole number from 0 to 5",
        ),
        (
            Further.GEMMA4_SMALL,
            {"vocab_size_per_layer_input": 500},
            "'vocab_size_per_layer_input': only vocab_size, 512",
        ),
        (Further.GEMMA4_SMALL, {"hidden_size_per_layer_input": -1}, "must be a whole number from 0 to 8192, is -1"),
        (
            Further.GEMMA4_SMALL,
            {"use_double_wide_mlp": False},
            "has shape [192, 64]; by config.json it must be [96, 64]",
        ),
        (Further.GEMMA3_PICTURES, {"global_head_dim": 32}, "'global_head_dim'"),
    ],
)
def test_unsupported_fields_are_refused_by_name(tmp_path, kind, fields, problem):
    folder = copy_of(further_checkpoint(kind), tmp_path)
    if kind is Further.GEMMA3_PICTURES:
        text = json.loads((folder / "config.json").read_text())["text_config"]
        fields = {"text_config": text | fields}
    edit_json(folder / "config.json", **fields)
    assert problem in refusal(folder)


@pytest.mark.parametrize(
    ("kind", "keys", "problem"),
    [
        (Further.GEMMA4, {"attention__sliding_window_pattern": 2}, "pattern': must say of each layer whether it has"),
        (
            Further.GEMMA4,
            {"attention__sliding_window_pattern": [True] * 3},
            "_kv': has 4 elements, for 3 layers",
        ),
        (Further.GEMMA4, {"attention__head_count_kv": [2, 1, 1, 1]}, "head_count_kv': must be the same for layers of"),
        (Further.GEMMA4, {"attention__key_length": 41}, "'gemma4.attention.value_length': must be that of keys, 41"),
        (Further.GEMMA4, {"attention__value_length_swa": 8}, "'gemma4.attention.value_length_swa': must be that of"),
        (Further.GEMMA4, {"rope__dimension_count": 8}, "'gemma4.rope.dimension_count': must be that of attention.key_"),
        (Further.GEMMA4, {"attention__shared_kv_layers": 3}, "'gemma4.attention.shared_kv_layers': leaves layers with"),
        (
            Further.GEMMA4,
            {"rope__scaling__type": "linear", "rope__scaling__factor": 8.0},
            "'gemma4.rope.scaling.type': only",
        ),
        (Further.GEMMA4_SMALL, {"feed_forward_length": [96] * 4 + [192]}, "length': has 5 elements, for 6 layers"),
        (Further.GEMMA4_MOE, {"expert_used_count": 9}, "'gemma4.expert_used_count': must be a whole number from 1 to"),
        (Further.GEMMA4_SMALL, {"feed_forward_length": [96] * 5 + [192]}, "length': must be twice that of the others"),
        (
            Further.GEMMA4_SMALL,
            {"attention__head_count_kv": [1, 2] * 3},
            "must be the same for all layers where",
        ),
        (Further.GEMMA4_SMALL, {"embedding_length_per_layer_input": 9000}, "'gemma4.embedding_length_per_layer_input'"),
    ],
)
def test_unsupported_keys_of_files_are_refused_by_name(tmp_path, kind, keys, problem):
    assert problem in refusal(write_gguf(further_checkpoint(kind), tmp_path / "model.gguf", **keys))


@pytest.mark.parametrize(
    "factors",
    [
        *([1.0] * 5 + [2.0] * 15, [1e30] * 20, [1e30] * 15 + [1.0] * 5, None, [1.0] * 5 + [float("nan")] * 15),
        *([1.0] * 5 + [1e30] * 14, [1.0] * 5 + [1e30] * 16),
    ],
)
def test_a_file_must_say_how_much_of_a_head_turns(tmp_path, monkeypatch, factors):
    tensors = {} if factors is None else {"rope_freqs.weight": np.array(factors, dtype=np.float32)}
    monkeypatch.setattr("tests.harness.models.gguf_files.gemma4_factors", lambda _: tensors)
    problem = refusal(write_gguf(further_checkpoint(Further.GEMMA4), tmp_path / "model.gguf"))
    assert (
        "needs tensor 'rope_freqs.weight'"
        if factors is None
        else "must be ones, then numbers from 1e+20, one for every two of a head's 40"
    ) in problem


def test_a_file_may_have_gates_and_ups_of_experts_apart(tmp_path, monkeypatch):
    folder = further_checkpoint(Further.GEMMA4_MOE)
    of_layer = gguf_files._tensors

    def apart(*given: object, **named: object) -> dict[str, np.ndarray]:
        tensors = of_layer(*given, **named)
        for name in [name for name in tensors if "ffn_gate_up_exps" in name]:
            gates, ups = np.split(tensors.pop(name), 2, axis=1)
            tensors |= {name.replace("gate_up", "gate"): gates, name.replace("gate_up", "up"): ups}
        return tensors

    monkeypatch.setattr(gguf_files, "_tensors", apart)
    found = load_checkpoint(write_gguf(folder, tmp_path / "model.gguf"))
    assert found.weights_digest() == load_checkpoint(folder).weights_digest()


def test_a_file_may_have_keys_that_nothing_reads(tmp_path):
    folder = further_checkpoint(Further.GEMMA4_SMALL)
    unread = {"blk.5.attn_k.weight": (40, 64), "blk.5.attn_v.weight": (40, 64), "blk.5.attn_k_norm.weight": (40,)}
    found = load_checkpoint(
        write_gguf(
            folder,
            tmp_path / "model.gguf",
            also=lambda writer: [writer.add_tensor(name, np.ones(shape, np.float32)) for name, shape in unread.items()],
        )
    )
    assert found.weights_digest() == load_checkpoint(folder).weights_digest()


def test_the_text_part_of_a_folder_that_sees_is_served(tmp_path):
    folder = copy_of(further_checkpoint(Further.GEMMA4_SMALL), tmp_path)
    expected = load_checkpoint(folder)
    fields = json.loads((folder / "config.json").read_text())
    whole = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "text_config": fields}
    (folder / "config.json").write_text(json.dumps(whole | {"tie_word_embeddings": True}))

    def rename(tensors: dict[str, torch.Tensor]) -> None:
        for name in [*tensors]:
            tensors[name.replace("model.", "model.language_model.")] = tensors.pop(name)
        tensors["model.vision_tower.patch_embedder.weight"] = torch.ones(2)
        tensors["model.audio_tower.layer.weight"] = torch.ones(2)

    edit_weights(folder, rename)
    found = load_checkpoint(folder)
    assert found.config == expected.config
    assert found.weights_digest() == expected.weights_digest()


@pytest.mark.parametrize(
    ("fields", "total", "active"),
    [
        (
            {
                **{"hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60, "num_attention_heads": 32},
                **{"num_key_value_heads": 16, "num_global_key_value_heads": 4, "attention_k_eq_v": True},
            },
            (30e9, 31.5e9),
            (28e9, 30e9),
        ),
        (
            {
                **{"hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30, "num_attention_heads": 16},
                **{"num_key_value_heads": 8, "num_global_key_value_heads": 2, "attention_k_eq_v": True},
                **{"enable_moe_block": True, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704},
            },
            (25e9, 27e9),
            (2.5e9, 4e9),
        ),
    ],
    ids=["31B", "26B-A4B"],
)
def test_published_sizes_are_counted(fields, total, active):
    _, config = read_architecture(JsonFields({**PUBLISHED, **fields}, "config.json"))
    assert total[0] < count_parameters(config) < total[1]
    assert active[0] < count_active_parameters(config) < active[1]
    assert config.layers[5] == Attention(
        head_dim=512, num_kv_heads=fields["num_global_key_value_heads"], values_are_keys=True
    )
    theirs = transformers.Gemma4TextConfig(**PUBLISHED, **fields)
    windowed = [isinstance(each, Attention) and each.window > 0 for each in config.layers]
    assert windowed == [kind == "sliding_attention" for kind in theirs.layer_types]
    saved = JsonFields({**theirs.to_dict(), "architectures": ["Gemma4ForCausalLM"]}, "config.json")
    assert read_architecture(saved)[1] == config, "transformers writes zeros before the numbers of layers"
