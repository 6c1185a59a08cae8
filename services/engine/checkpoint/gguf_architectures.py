"""GGUF architectures: how each one's hyperparameters become the fields of config.json that architectures.py reads.

To add one: what it has beside what all have, and its entry in GGUF_ARCHITECTURES.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from services.engine.checkpoint.gguf_hyperparameters import Hyperparameters
from services.engine.checkpoint.gguf_names import (
    FIRST_MLP_NORM,
    FIRST_QUERY_BIAS,
    FIRST_QUERY_NORM,
    FIRST_UP_BIAS,
    GGUF_COHERE_NAMES,
    GGUF_EXPERT_NAMES,
    GGUF_FUSED_MLP_NAMES,
    GGUF_FUSED_NAMES,
    GGUF_LAYER_NORM_NAMES,
    GGUF_NAMES,
    GGUF_NORM_OF_EACH_HEAD_NAMES,
    GGUF_SHARED_EXPERT_NAMES,
    LONG_FACTORS,
    SHORT_FACTORS,
)
from services.engine.checkpoint.gguf_tensors import GgufTensors
from services.engine.files.json_fields import JsonFields, shown
from services.engine.gguf.metadata import Metadata

_FULL, _SLIDING = "full_attention", "sliding_attention"
_MOST_LAYERS = 1 << 12
_Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GgufArchitecture:
    """What one `general.architecture` stands for."""

    name: str  # the first of config.json's `architectures`
    model_type: str
    translate: Callable[[Hyperparameters], _Fields]  # what it has beside what all have
    names: Mapping[str, str]  # see gguf_names.py
    permutes_heads: bool = False  # rows of query and key alternate between the halves of a head
    keys: frozenset[str] = frozenset()  # that it carries out, where others must not have them


def read_gguf_config(metadata: Metadata, tensors: GgufTensors) -> tuple[GgufArchitecture, JsonFields]:
    """Pick the architecture that the file names, and translate its hyperparameters.

    Raises CheckpointError for an architecture that is not served, and for what would change what is computed.
    """
    if (name := metadata.required_text("general.architecture")) not in GGUF_ARCHITECTURES:
        allowed = ", ".join(GGUF_ARCHITECTURES)
        raise metadata.error("general.architecture", f"{shown(name)} is not supported; allowed are {allowed}")
    found = Hyperparameters(metadata, name, tensors)
    architecture = _kind_of_llama(found) if name == "llama" else GGUF_ARCHITECTURES[name]
    found.check_all_carried_out(architecture.keys)
    labels = {"architectures": [architecture.name], "model_type": architecture.model_type}
    return architecture, found.as_config(labels | architecture.translate(found))


def _kind_of_llama(found: Hyperparameters) -> GgufArchitecture:
    if found["expert_count"]:
        return MIXTRAL
    return MISTRAL if found["attention.sliding_window"] else GGUF_ARCHITECTURES["llama"]


def _translate_llama(found: Hyperparameters) -> _Fields:
    biases = {"attention_bias": FIRST_QUERY_BIAS in found.tensors, "mlp_bias": FIRST_UP_BIAS in found.tensors}
    return {"hidden_act": "silu", **biases, "sliding_window": None}


def _translate_mistral(found: Hyperparameters) -> _Fields:
    return {"hidden_act": "silu", "sliding_window": found["attention.sliding_window"]}


def _translate_qwen2(found: Hyperparameters) -> _Fields:
    _refuse_windows(found)
    return {"hidden_act": "silu", "use_sliding_window": False}


def _translate_qwen3(found: Hyperparameters) -> _Fields:
    return _translate_qwen2(found) | {"attention_bias": FIRST_QUERY_BIAS in found.tensors}


def _translate_olmo2(found: Hyperparameters) -> _Fields:
    _refuse_windows(found)
    return {"hidden_act": "silu", "attention_bias": False}


def _translate_smollm3(found: Hyperparameters) -> _Fields:
    return _translate_llama(found) | {"use_sliding_window": False}


def _translate_granite(found: Hyperparameters) -> _Fields:
    if found["rope.scaling.finetuned"] is False:
        raise found.error("rope.scaling.finetuned", "only true is supported: without, nothing tells positions apart")
    scales = ("embedding_scale", "attention.scale", "residual_scale", "logit_scale")
    fields = ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling")
    present = {field: found[key] for field, key in zip(fields, scales, strict=True) if found[key] is not None}
    return _translate_llama(found) | present


def _translate_glm4(found: Hyperparameters) -> _Fields:
    return {"hidden_act": "silu", "attention_bias": FIRST_QUERY_BIAS in found.tensors}


def _translate_stablelm(found: Hyperparameters) -> _Fields:
    """llama.cpp goes by which norms there are, not by `use_parallel_residual`."""
    return {
        "hidden_act": "silu",
        "layer_norm_eps": found["attention.layer_norm_epsilon"],
        "use_qkv_bias": FIRST_QUERY_BIAS in found.tensors,
        "qk_layernorm": FIRST_QUERY_NORM in found.tensors,
        "use_parallel_residual": FIRST_MLP_NORM not in found.tensors,
    }


def _translate_starcoder2(found: Hyperparameters) -> _Fields:
    return {
        "hidden_act": "gelu_pytorch_tanh",
        "norm_epsilon": found["attention.layer_norm_epsilon"],
        "use_bias": FIRST_QUERY_BIAS in found.tensors,
    }


def _translate_cohere(found: Hyperparameters) -> _Fields:
    return {
        "hidden_act": "silu",
        "layer_norm_eps": found["attention.layer_norm_epsilon"],
        "logit_scale": found["logit_scale"],
        "attention_bias": FIRST_QUERY_BIAS in found.tensors,
        "sliding_window": found["attention.sliding_window"],
        "use_qk_norm": FIRST_QUERY_NORM in found.tensors,
    }


def _translate_cohere2(found: Hyperparameters) -> _Fields:
    return _translate_cohere(found) | _sliding_layers(found)


def _translate_experts(found: Hyperparameters) -> _Fields:
    """What all mixtures have; how wide an expert is stands in its own key, but for OLMoE and Mixtral."""
    return {
        "hidden_act": "silu",
        "num_experts": found["expert_count"],
        "num_experts_per_tok": found["expert_used_count"],
    }


def _translate_mixtral(found: Hyperparameters) -> _Fields:
    return _translate_experts(found) | {"sliding_window": found["attention.sliding_window"] or None}


def _translate_olmoe(found: Hyperparameters) -> _Fields:
    _refuse_windows(found)
    return _translate_experts(found) | {"attention_bias": FIRST_QUERY_BIAS in found.tensors, "norm_topk_prob": False}


def _translate_qwen3_moe(found: Hyperparameters) -> _Fields:
    own = {"moe_intermediate_size": found["expert_feed_forward_length"], "norm_topk_prob": True}
    return _translate_olmoe(found) | own


def _translate_qwen2_moe(found: Hyperparameters) -> _Fields:
    _refuse_windows(found)
    return _translate_experts(found) | {
        "moe_intermediate_size": found["expert_feed_forward_length"],
        "shared_expert_intermediate_size": found["expert_shared_feed_forward_length"],
        "norm_topk_prob": False,
        "qkv_bias": FIRST_QUERY_BIAS in found.tensors,
    }


def _translate_phi3(found: Hyperparameters) -> _Fields:
    fields: _Fields = {"hidden_act": "silu", "sliding_window": found["attention.sliding_window"] or None}
    long, short = found.tensors.factors(LONG_FACTORS), found.tensors.factors(SHORT_FACTORS)
    if long is None and short is None:
        return fields
    scaling = {"rope_type": "longrope", "long_factor": long, "short_factor": short}
    return fields | {"rope_scaling": scaling | {"attention_factor": found["rope.scaling.attn_factor"]}}


def _translate_gemma2(found: Hyperparameters) -> _Fields:
    window, attention, final = (
        found[key] for key in ("attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping")
    )
    return _translate_gemma(found, largest=46) | {
        "sliding_window": 4096 if window is None else window,
        "attn_logit_softcapping": 50.0 if attention is None else attention,
        "final_logit_softcapping": 30.0 if final is None else final,
    }


def _translate_gemma3(found: Hyperparameters) -> _Fields:
    fields = _translate_gemma(found, largest=62) | {
        "final_logit_softcapping": found["final_logit_softcapping"] or None,
        "rope_local_base_freq": found["rope.freq_base_swa"],
    }
    layers = found["block_count"]
    if not found["attention.sliding_window"] and isinstance(layers, int):
        return fields | {"layer_types": [_FULL] * min(layers, _MOST_LAYERS)}
    pattern = found["attention.sliding_window_pattern"]
    return fields | ({} if isinstance(pattern, list) else {"sliding_window_pattern": pattern})


def _translate_gemma(found: Hyperparameters, *, largest: int) -> _Fields:
    """What the Gemmas share; the model of most layers scales its queries by another size than that of a head."""
    hidden, heads, layers = (found[key] for key in ("embedding_length", "attention.head_count", "block_count"))
    fields: _Fields = {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": found["attention.key_length"]}
    if layers == largest and isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        fields["query_pre_attn_scalar"] = hidden // heads
    return fields | _sliding_layers(found)


def _sliding_layers(found: Hyperparameters) -> _Fields:
    """Which layers have windows, where a list says so."""
    pattern = found["attention.sliding_window_pattern"]
    if not isinstance(pattern, list):
        return {}
    return {"layer_types": [_SLIDING if slides else _FULL for slides in pattern]}


def _refuse_windows(found: Hyperparameters) -> None:
    if window := found["attention.sliding_window"]:
        raise found.error("attention.sliding_window", f"only 0 is supported here, is {shown(window)}")


_OF_EXPERTS = frozenset({"expert_count", "expert_used_count"})
_OF_SIZED_EXPERTS = _OF_EXPERTS | {"expert_feed_forward_length"}
_OF_COHERE = frozenset({"logit_scale"})
_OF_GRANITE = frozenset({"embedding_scale", "attention.scale", "residual_scale", "logit_scale"})

MISTRAL = GgufArchitecture("MistralForCausalLM", "mistral", _translate_mistral, GGUF_NAMES, permutes_heads=True)
MIXTRAL = GgufArchitecture(
    "MixtralForCausalLM", "mixtral", _translate_mixtral, GGUF_EXPERT_NAMES, permutes_heads=True, keys=_OF_EXPERTS
)
GGUF_ARCHITECTURES = {
    "llama": GgufArchitecture("LlamaForCausalLM", "llama", _translate_llama, GGUF_NAMES, permutes_heads=True),
    "qwen2": GgufArchitecture("Qwen2ForCausalLM", "qwen2", _translate_qwen2, GGUF_NAMES),
    "qwen3": GgufArchitecture("Qwen3ForCausalLM", "qwen3", _translate_qwen3, GGUF_NAMES),
    "phi3": GgufArchitecture("Phi3ForCausalLM", "phi3", _translate_phi3, GGUF_FUSED_NAMES),
    "olmo2": GgufArchitecture("Olmo2ForCausalLM", "olmo2", _translate_olmo2, GGUF_NAMES),
    "gemma2": GgufArchitecture("Gemma2ForCausalLM", "gemma2", _translate_gemma2, GGUF_NAMES),
    "gemma3": GgufArchitecture("Gemma3ForCausalLM", "gemma3_text", _translate_gemma3, GGUF_NAMES),
    "smollm3": GgufArchitecture("SmolLM3ForCausalLM", "smollm3", _translate_smollm3, GGUF_NAMES, permutes_heads=True),
    "granite": GgufArchitecture(
        "GraniteForCausalLM", "granite", _translate_granite, GGUF_NAMES, permutes_heads=True, keys=_OF_GRANITE
    ),
    "glm4": GgufArchitecture("Glm4ForCausalLM", "glm4", _translate_glm4, GGUF_FUSED_MLP_NAMES, permutes_heads=True),
    "stablelm": GgufArchitecture(
        "StableLmForCausalLM",
        "stablelm",
        _translate_stablelm,
        GGUF_NORM_OF_EACH_HEAD_NAMES,
        keys=frozenset({"use_parallel_residual"}),
    ),
    "starcoder2": GgufArchitecture("Starcoder2ForCausalLM", "starcoder2", _translate_starcoder2, GGUF_LAYER_NORM_NAMES),
    "command-r": GgufArchitecture(
        "CohereForCausalLM", "cohere", _translate_cohere, GGUF_COHERE_NAMES, permutes_heads=True, keys=_OF_COHERE
    ),
    "cohere2": GgufArchitecture(
        "Cohere2ForCausalLM", "cohere2", _translate_cohere2, GGUF_COHERE_NAMES, permutes_heads=True, keys=_OF_COHERE
    ),
    "olmoe": GgufArchitecture("OlmoeForCausalLM", "olmoe", _translate_olmoe, GGUF_EXPERT_NAMES, keys=_OF_EXPERTS),
    "qwen3moe": GgufArchitecture(
        "Qwen3MoeForCausalLM", "qwen3_moe", _translate_qwen3_moe, GGUF_EXPERT_NAMES, keys=_OF_SIZED_EXPERTS
    ),
    "qwen2moe": GgufArchitecture(
        "Qwen2MoeForCausalLM",
        "qwen2_moe",
        _translate_qwen2_moe,
        GGUF_SHARED_EXPERT_NAMES,
        keys=_OF_SIZED_EXPERTS | {"expert_shared_feed_forward_length"},
    ),
}
