"""GGUF architectures: translates each one's hyperparameters to the fields of a config.json.

To add one, write a function that returns its fields beside those that all have, and its entry in GGUF_ARCHITECTURES.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from services.engine.checkpoint.architectures.layer_kinds import FULL
from services.engine.checkpoint.architectures.lfm2 import CONV
from services.engine.checkpoint.architectures.unsupported import reason_for_file
from services.engine.checkpoint.gguf.gemmas import translate_gemma2, translate_gemma3, translate_gemma4
from services.engine.checkpoint.gguf.hyperparameters import SIGMOID, Fields, Hyperparameters
from services.engine.checkpoint.gguf.mixtures import (
    translate_deepseek_v2,
    translate_glm4_moe,
    translate_gpt_oss,
    translate_latents,
    translate_mixtral,
    translate_olmoe,
    translate_qwen2_moe,
    translate_qwen3_5,
    translate_qwen3_5_moe,
    translate_qwen3_moe,
    translate_scored_experts,
)
from services.engine.checkpoint.gguf.names import (
    CHOICE_BIAS,
    FIRST_MLP_NORM,
    FIRST_QUERY_BIAS,
    FIRST_QUERY_NORM,
    FIRST_UP_BIAS,
    GGUF_COHERE_NAMES,
    GGUF_DEEPSEEK_NAMES,
    GGUF_EXPERT_NAMES,
    GGUF_FUSED_MLP_NAMES,
    GGUF_FUSED_NAMES,
    GGUF_GEMMA4_NAMES,
    GGUF_GLM4_MOE_NAMES,
    GGUF_GPT_OSS_NAMES,
    GGUF_LAYER_NORM_NAMES,
    GGUF_LFM2_MOE_NAMES,
    GGUF_LFM2_NAMES,
    GGUF_NAMES,
    GGUF_NORM_OF_EACH_HEAD_NAMES,
    GGUF_PACKED_QWEN3_NEXT_NAMES,
    GGUF_QWEN3_5_MOE_NAMES,
    GGUF_QWEN3_5_NAMES,
    GGUF_QWEN3_NEXT_NAMES,
    GGUF_SHARED_EXPERT_NAMES,
    GGUF_UNFUSED_GEMMA4_NAMES,
)
from services.engine.checkpoint.gguf.tensors import GgufTensors
from services.engine.files.json_fields import JsonFields, shown
from services.engine.gguf.metadata import Metadata


@dataclass(frozen=True, slots=True)
class GgufArchitecture:
    """The meaning of one `general.architecture`."""

    name: str  # the first of config.json's `architectures`
    model_type: str
    translate: Callable[[Hyperparameters], Fields]  # its fields beside those that all have
    names: Mapping[str, str]  # see names.py
    packed_names: Mapping[str, str] | None = None  # of other files
    permutes_heads: bool = False  # rows of query and key alternate between the halves of a head
    permutes_value_heads: bool = False  # of states: the first of every key head, then the second
    divides_frequencies: bool = True  # by the factors of frequencies that a file may have
    keys: frozenset[str] = frozenset()  # that it implements and others must not have


def read_gguf_config(metadata: Metadata, tensors: GgufTensors) -> tuple[GgufArchitecture, JsonFields]:
    """Pick the architecture that the file names, and translate its hyperparameters.

    Raises CheckpointError for an architecture that is not served, and for a key that would change the computation.
    """
    if (name := metadata.required_text("general.architecture")) not in GGUF_ARCHITECTURES:
        reason, allowed = reason_for_file(name), ", ".join(GGUF_ARCHITECTURES)
        problem = f"{shown(name)} is not supported{f': {reason}' if reason else ''}; allowed are {allowed}"
        raise metadata.error("general.architecture", problem)
    found = Hyperparameters(metadata, name, tensors)
    architecture = _KINDS[name](found) if name in _KINDS else GGUF_ARCHITECTURES[name]
    found.check_all_carried_out(architecture.keys)
    labels = {"architectures": [architecture.name], "model_type": architecture.model_type}
    return architecture, found.as_config(labels | architecture.translate(found))


def _kind_of_llama(found: Hyperparameters) -> GgufArchitecture:
    dense = MISTRAL if found["attention.sliding_window"] else GGUF_ARCHITECTURES["llama"]
    return MIXTRAL if found["expert_count"] else dense


def _kind_of_olmo2(found: Hyperparameters) -> GgufArchitecture:
    return OLMO3 if found["attention.sliding_window"] else GGUF_ARCHITECTURES["olmo2"]


def _kind_of_deepseek2(found: Hyperparameters) -> GgufArchitecture:
    """Tell apart how experts are scored; the first files of GLM 4.7 Flash do not say it."""
    function = found["expert_gating_func"]
    has_bias = any(name.endswith(CHOICE_BIAS) for name in found.tensors)
    is_scored = has_bias if function is None else function == SIGMOID
    return DEEPSEEK_V3 if is_scored else GGUF_ARCHITECTURES["deepseek2"]


def _translate_llama(found: Hyperparameters) -> Fields:
    biases = {"attention_bias": FIRST_QUERY_BIAS in found.tensors, "mlp_bias": FIRST_UP_BIAS in found.tensors}
    return {"hidden_act": "silu", **biases, "sliding_window": None}


def _translate_mistral(found: Hyperparameters) -> Fields:
    return {"hidden_act": "silu", "sliding_window": found["attention.sliding_window"]}


def _translate_mistral3(found: Hyperparameters) -> Fields:
    """Translate Ministral 3; its converter writes only the second of YaRN's two scales, the first is 1."""
    scaling, of_all = found.rope_scaling(), found["rope.scaling.yarn_log_multiplier"]
    scales = {"mscale": 1.0, "mscale_all_dim": of_all} if of_all else {}
    beta = {"llama_4_scaling_beta": found["attention.temperature_scale"]}
    return _translate_mistral(found) | {"rope_scaling": None, "rope_parameters": scaling and scaling | scales | beta}


def _translate_qwen2(found: Hyperparameters) -> Fields:
    found.refuse_windows()
    return {"hidden_act": "silu", "use_sliding_window": False}


def _translate_qwen3(found: Hyperparameters) -> Fields:
    return _translate_qwen2(found) | {"attention_bias": FIRST_QUERY_BIAS in found.tensors}


def _translate_olmo(found: Hyperparameters) -> Fields:
    return {"hidden_act": "silu", "attention_bias": False} | found.layer_types()


def _translate_smollm3(found: Hyperparameters) -> Fields:
    return _translate_llama(found) | {"use_sliding_window": False}


def _translate_granite(found: Hyperparameters) -> Fields:
    if found["rope.scaling.finetuned"] is False:
        raise found.error("rope.scaling.finetuned", "only true is supported: without it there are no positions")
    scales = ("embedding_scale", "attention.scale", "residual_scale", "logit_scale")
    fields = ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling")
    present = {field: found[key] for field, key in zip(fields, scales, strict=True) if found[key] is not None}
    return _translate_llama(found) | present


def _translate_glm4(found: Hyperparameters) -> Fields:
    return {"hidden_act": "silu", "attention_bias": FIRST_QUERY_BIAS in found.tensors}


def _translate_stablelm(found: Hyperparameters) -> Fields:
    """Translate StableLM; like llama.cpp it looks at which norms exist, not at `use_parallel_residual`."""
    return {
        "hidden_act": "silu",
        "layer_norm_eps": found["attention.layer_norm_epsilon"],
        "use_qkv_bias": FIRST_QUERY_BIAS in found.tensors,
        "qk_layernorm": FIRST_QUERY_NORM in found.tensors,
        "use_parallel_residual": FIRST_MLP_NORM not in found.tensors,
    }


def _translate_starcoder2(found: Hyperparameters) -> Fields:
    return {
        "hidden_act": "gelu_pytorch_tanh",
        "norm_epsilon": found["attention.layer_norm_epsilon"],
        "use_bias": FIRST_QUERY_BIAS in found.tensors,
    }


def _translate_cohere(found: Hyperparameters) -> Fields:
    return {
        "hidden_act": "silu",
        "layer_norm_eps": found["attention.layer_norm_epsilon"],
        "logit_scale": found["logit_scale"],
        "attention_bias": FIRST_QUERY_BIAS in found.tensors,
        "sliding_window": found["attention.sliding_window"],
        "use_qk_norm": FIRST_QUERY_NORM in found.tensors,
    }


def _translate_cohere2(found: Hyperparameters) -> Fields:
    return _translate_cohere(found) | found.layer_types()


def _translate_phi3(found: Hyperparameters) -> Fields:
    return {"hidden_act": "silu", "sliding_window": found["attention.sliding_window"] or None}


def _translate_lfm2(found: Hyperparameters) -> Fields:
    """Return the fields; layers with 0 KV heads are convolutions, and the size of the MLP is final.

    Raises CheckpointError for a bad key.
    """
    found.refuse_windows()
    heads, layers = found["attention.head_count_kv"], found["block_count"]
    fields: Fields = {
        "hidden_act": "silu",
        "norm_eps": found["attention.layer_norm_rms_epsilon"],
        "conv_L_cache": found["shortconv.l_cache"],
        "block_auto_adjust_ff_dim": False,
    }
    if not isinstance(heads, list):
        return fields | {"layer_types": None}
    if len(heads) != layers:
        raise found.error("attention.head_count_kv", f"has {len(heads)} elements; there are {shown(layers)} layers")
    attending = {count for count in heads if count != 0}
    return fields | {
        "layer_types": [CONV if count == 0 else FULL for count in heads],
        "num_key_value_heads": attending.pop() if len(attending) == 1 else heads,
    }


def _translate_lfm2_moe(found: Hyperparameters) -> Fields:
    """Return the fields; raises CheckpointError for a bad key."""
    has_bias = any(name.endswith(CHOICE_BIAS) for name in found.tensors)
    dense = found["leading_dense_block_count"]
    return (
        _translate_lfm2(found)
        | translate_scored_experts(found)
        | {"num_dense_layers": 0 if dense is None else dense, "use_expert_bias": has_bias}
    )


_OF_EXPERTS = frozenset({"expert_count", "expert_used_count"})
_OF_SIZED_EXPERTS = _OF_EXPERTS | {"expert_feed_forward_length"}
_OF_SHARED_EXPERT = _OF_SIZED_EXPERTS | {"expert_shared_feed_forward_length"}
_OF_SCORED_EXPERTS = _OF_SIZED_EXPERTS | {
    *("expert_gating_func", "expert_weights_scale", "expert_weights_norm", "leading_dense_block_count")
}
_OF_GLM4_MOE = _OF_SCORED_EXPERTS | {
    *("expert_shared_count", "expert_group_count", "expert_group_used_count", "nextn_predict_layers")
}
_OF_LATENTS = frozenset(
    {f"attention.{name}" for name in ("q_lora_rank", "kv_lora_rank", "key_length_mla", "value_length_mla")}
    | {"rope.scaling.yarn_log_multiplier"}
)
_OF_DEEPSEEK_V3 = _OF_GLM4_MOE | _OF_LATENTS
_OF_GEMMA4 = _OF_SIZED_EXPERTS | {
    *("attention.key_length_swa", "attention.value_length_swa", "attention.shared_kv_layers"),
    *("rope.dimension_count_swa", "embedding_length_per_layer_input"),
}
_OF_MISTRAL3 = frozenset({"rope.scaling.yarn_log_multiplier", "attention.temperature_scale"})
_OF_STABLELM = frozenset({"use_parallel_residual"})
_OF_QWEN3_5 = frozenset(
    {"nextn_predict_layers", "full_attention_interval", "rope.dimension_sections"}
    | {f"ssm.{name}" for name in ("conv_kernel", "state_size", "group_count", "time_step_rank", "inner_size")}
)
_OF_COHERE = frozenset({"logit_scale"})
_OF_GRANITE = frozenset({"embedding_scale", "attention.scale", "residual_scale", "logit_scale"})

MISTRAL = GgufArchitecture("MistralForCausalLM", "mistral", _translate_mistral, GGUF_NAMES, permutes_heads=True)
OLMO3 = GgufArchitecture("Olmo3ForCausalLM", "olmo3", _translate_olmo, GGUF_NAMES)
MIXTRAL = GgufArchitecture(
    "MixtralForCausalLM", "mixtral", translate_mixtral, GGUF_EXPERT_NAMES, permutes_heads=True, keys=_OF_EXPERTS
)
DEEPSEEK_V3 = GgufArchitecture(
    "DeepseekV3ForCausalLM", "deepseek_v3", translate_latents, GGUF_DEEPSEEK_NAMES, keys=_OF_DEEPSEEK_V3
)
GGUF_ARCHITECTURES = {
    "llama": GgufArchitecture("LlamaForCausalLM", "llama", _translate_llama, GGUF_NAMES, permutes_heads=True),
    "qwen2": GgufArchitecture("Qwen2ForCausalLM", "qwen2", _translate_qwen2, GGUF_NAMES),
    "qwen3": GgufArchitecture("Qwen3ForCausalLM", "qwen3", _translate_qwen3, GGUF_NAMES),
    "phi3": GgufArchitecture("Phi3ForCausalLM", "phi3", _translate_phi3, GGUF_FUSED_NAMES),
    "olmo2": GgufArchitecture("Olmo2ForCausalLM", "olmo2", _translate_olmo, GGUF_NAMES),
    "gemma2": GgufArchitecture("Gemma2ForCausalLM", "gemma2", translate_gemma2, GGUF_NAMES),
    "gemma3": GgufArchitecture("Gemma3ForCausalLM", "gemma3_text", translate_gemma3, GGUF_NAMES),
    "gemma4": GgufArchitecture(
        "Gemma4ForCausalLM",
        "gemma4_text",
        translate_gemma4,
        GGUF_GEMMA4_NAMES,
        packed_names=GGUF_UNFUSED_GEMMA4_NAMES,
        divides_frequencies=False,
        keys=_OF_GEMMA4,
    ),
    "mistral3": GgufArchitecture(
        "Ministral3ForCausalLM", "ministral3", _translate_mistral3, GGUF_NAMES, permutes_heads=True, keys=_OF_MISTRAL3
    ),
    "smollm3": GgufArchitecture("SmolLM3ForCausalLM", "smollm3", _translate_smollm3, GGUF_NAMES, permutes_heads=True),
    "granite": GgufArchitecture(
        "GraniteForCausalLM", "granite", _translate_granite, GGUF_NAMES, permutes_heads=True, keys=_OF_GRANITE
    ),
    "glm4": GgufArchitecture("Glm4ForCausalLM", "glm4", _translate_glm4, GGUF_FUSED_MLP_NAMES, permutes_heads=True),
    "stablelm": GgufArchitecture(
        "StableLmForCausalLM", "stablelm", _translate_stablelm, GGUF_NORM_OF_EACH_HEAD_NAMES, keys=_OF_STABLELM
    ),
    "starcoder2": GgufArchitecture("Starcoder2ForCausalLM", "starcoder2", _translate_starcoder2, GGUF_LAYER_NORM_NAMES),
    "command-r": GgufArchitecture(
        "CohereForCausalLM", "cohere", _translate_cohere, GGUF_COHERE_NAMES, permutes_heads=True, keys=_OF_COHERE
    ),
    "cohere2": GgufArchitecture(
        "Cohere2ForCausalLM", "cohere2", _translate_cohere2, GGUF_COHERE_NAMES, permutes_heads=True, keys=_OF_COHERE
    ),
    "lfm2": GgufArchitecture(
        "Lfm2ForCausalLM", "lfm2", _translate_lfm2, GGUF_LFM2_NAMES, keys=frozenset({"shortconv.l_cache"})
    ),
    "lfm2moe": GgufArchitecture(
        "Lfm2MoeForCausalLM",
        "lfm2_moe",
        _translate_lfm2_moe,
        GGUF_LFM2_MOE_NAMES,
        keys=_OF_SCORED_EXPERTS | {"shortconv.l_cache"},
    ),
    "glm4moe": GgufArchitecture(
        "Glm4MoeForCausalLM", "glm4_moe", translate_glm4_moe, GGUF_GLM4_MOE_NAMES, keys=_OF_GLM4_MOE
    ),
    "deepseek2": GgufArchitecture(
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        translate_deepseek_v2,
        GGUF_DEEPSEEK_NAMES,
        keys=_OF_DEEPSEEK_V3 - {"expert_gating_func", "nextn_predict_layers"},
    ),
    "qwen35": GgufArchitecture(
        "Qwen3_5ForCausalLM",
        "qwen3_5_text",
        translate_qwen3_5,
        GGUF_QWEN3_5_NAMES,
        permutes_value_heads=True,
        keys=_OF_QWEN3_5,
    ),
    "qwen35moe": GgufArchitecture(
        "Qwen3_5MoeForCausalLM",
        "qwen3_5_moe_text",
        translate_qwen3_5_moe,
        GGUF_QWEN3_5_MOE_NAMES,
        permutes_value_heads=True,
        keys=_OF_QWEN3_5 | _OF_SHARED_EXPERT,
    ),
    "qwen3next": GgufArchitecture(
        "Qwen3NextForCausalLM",
        "qwen3_next",
        translate_qwen3_5_moe,
        GGUF_QWEN3_NEXT_NAMES,
        packed_names=GGUF_PACKED_QWEN3_NEXT_NAMES,
        keys=_OF_QWEN3_5 | _OF_SHARED_EXPERT,
    ),
    "olmoe": GgufArchitecture("OlmoeForCausalLM", "olmoe", translate_olmoe, GGUF_EXPERT_NAMES, keys=_OF_EXPERTS),
    "qwen3moe": GgufArchitecture(
        "Qwen3MoeForCausalLM", "qwen3_moe", translate_qwen3_moe, GGUF_EXPERT_NAMES, keys=_OF_SIZED_EXPERTS
    ),
    "qwen2moe": GgufArchitecture(
        "Qwen2MoeForCausalLM",
        "qwen2_moe",
        translate_qwen2_moe,
        GGUF_SHARED_EXPERT_NAMES,
        keys=_OF_SHARED_EXPERT,
    ),
    "gpt-oss": GgufArchitecture(
        "GptOssForCausalLM", "gpt_oss", translate_gpt_oss, GGUF_GPT_OSS_NAMES, keys=_OF_SIZED_EXPERTS
    ),
}
_KINDS: dict[str, Callable[[Hyperparameters], GgufArchitecture]] = {
    **{"llama": _kind_of_llama, "olmo2": _kind_of_olmo2, "deepseek2": _kind_of_deepseek2},
}
