"""Small random checkpoints of further architectures and rotary scalings, in which each feature changes the output.

They are kept from `Kind`, whose every member runs on each instruction set: what is new of these lies above the kernels.
"""

import copy
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.harness.models.checkpoints import LONGROPE_ORIGINAL, scratch, write_model

_SHAPE: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
_YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": LONGROPE_ORIGINAL,
}
_LONGROPE: dict[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": LONGROPE_ORIGINAL,
    "short_factor": [1.0 + 0.05 * i for i in range(8)],
    "long_factor": [1.0 + 0.5 * i for i in range(8)],
}
_TYPES = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]


class Further(StrEnum):
    """What a random checkpoint exercises."""

    LLAMA_BIASED = "llama_biased"  # biases on all products, longrope
    MINISTRAL = "ministral"  # some layers windowed, dynamic scaling within the context
    MINISTRAL3 = "ministral3"  # YaRN with scales of its own
    SMOLLM3 = "smollm3"  # every fourth layer without rotary embeddings, YaRN, tied embeddings
    GRANITE = "granite"  # multipliers of embeddings, scores, sublayers and logits
    OLMO3 = "olmo3"  # windows, and YaRN on the layers without
    GLM = "glm"  # neighbours turn together, in half of each head; fused tensors, biases
    GLM4 = "glm4"  # as before, norms on both sides
    STABLELM = "stablelm"  # layer norms, a quarter of each head turns, biases on query, key and value
    STABLELM_PARALLEL = "stablelm_parallel"  # norms of each head with weights of its own, an MLP beside attention
    STARCODER2 = "starcoder2"  # layer norms, biases on all products, no gate, all layers windowed, tied embeddings
    COHERE = "cohere"  # layer norms without biases, an MLP beside attention, neighbours turn together
    COHERE_PLUS = "cohere_plus"  # norms of each query and key with weights of its own
    COHERE2 = "cohere2"  # layer norms without biases, an MLP beside attention, rotary embeddings on windowed layers
    PHI4_MINI = "phi4_mini"  # longrope on three quarters of each head, tied embeddings
    LFM2 = "lfm2"  # short convolutions with biases on most layers, norms of each query and key, tied embeddings
    LFM2_MOE = "lfm2_moe"  # experts with sigmoids, chosen by a bias, after a layer without
    LFM2_MOE_PLAIN = "lfm2_moe_plain"  # without the bias, weights that need not sum up to 1
    GLM4_MOE = "glm4_moe"  # two of four groups of experts with sigmoids, beside one for all tokens; norms, biases
    GLM4_MOE_AIR = "glm4_moe_air"  # one group, two layers without experts
    GLM4_MOE_LITE = "glm4_moe_lite"  # latent vectors, from which queries, keys and values are made; experts as above
    DEEPSEEK_V2 = (
        "deepseek_v2"  # whole queries; two of four groups of experts by their best one; YaRN with scores scaled
    )
    DEEPSEEK_V2_LITE = "deepseek_v2_lite"  # one group
    DEEPSEEK_V3 = "deepseek_v3"  # compressed queries; two of four groups of experts with sigmoids
    OLMOE = "olmoe"  # experts, norms of query and key over all heads
    QWEN3_MOE = "qwen3_moe"  # experts whose weights sum up to 1, norms of each query and key
    MIXTRAL = "mixtral"  # experts whose weights sum up to 1, all layers windowed
    QWEN2_MOE = "qwen2_moe"  # experts, and one for all tokens by a gate; biases on query, key and value
    GPT_OSS = "gpt_oss"  # experts with biases and clamped gates, sinks, every other layer windowed, YaRN
    GEMMA4 = "gemma4"  # heads by layers, values that are keys, norms of values, scaled layers, a soft cap
    GEMMA4_MOE = "gemma4_moe"  # the same with experts beside the MLP
    GEMMA4_SMALL = "gemma4_small"  # inputs of layers, shared keys and values, wide MLPs
    GEMMA4_UNIFIED = "gemma4_unified"  # the text part of a folder that sees and hears, all heads of values alike
    GEMMA3_PICTURES = "gemma3_pictures"  # the text part of a folder that sees
    MISTRAL3_PICTURES = "mistral3_pictures"
    QWEN3_5 = "qwen3_5"  # gated delta rule on three of four layers, gated attention, a quarter of each head turns
    QWEN3_5_PICTURES = "qwen3_5_pictures"  # a value head for each key head, tied embeddings
    QWEN3_5_MOE = "qwen3_5_moe"  # as before, with experts whose weights sum up to 1, and one for all tokens by a gate
    QWEN3_5_MOE_PICTURES = "qwen3_5_moe_pictures"  # a value head for each key head
    QWEN3_NEXT = "qwen3_next"  # as before, with the delta rule's inputs packed by key heads
    QWEN3_NEXT_ALIKE = "qwen3_next_alike"  # a value head for each key head, experts whose weights need not sum up to 1


_FEW = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
_VISION: dict[str, Any] = {**_FEW, "image_size": 28, "patch_size": 14}
_QWEN_VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2}
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
_YARN_SCALED = {
    **{**_YARN, "mscale": 1.0, "mscale_all_dim": 0.5, "beta_fast": 4.0, "beta_slow": 1.0},
    **{"original_max_position_embeddings": 256, "llama_4_scaling_beta": 0.1},
}
_LONGROPE_OF_A_PART = {
    **{**_LONGROPE, "partial_rotary_factor": 0.75},
    **{name: _LONGROPE[name][:6] for name in ("short_factor", "long_factor")},
}
_TWO_ROPES = {"sliding_attention": {"rope_type": "default", "rope_theta": 500.0}, "full_attention": _YARN}
_DELTA = {
    **{"linear_num_value_heads": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32, "head_dim": 32},
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
}
_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3}
_SHARED_EXPERT = {**_EXPERTS, "moe_intermediate_size": 40, "shared_expert_intermediate_size": 56}
_LFM2_EXPERTS = {
    **{**_EXPERTS, "moe_intermediate_size": 64, "max_position_embeddings": 512},
    "layer_types": ["conv", "full_attention", "conv", "full_attention"],
}
_GLM_EXPERTS = {
    **{"num_experts_per_tok": 3, "moe_intermediate_size": 64},
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
}
_LATENT = {
    **{"num_experts_per_tok": 3, "moe_intermediate_size": 64, "num_key_value_heads": 4, "kv_lora_rank": 64},
    **{"qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 96},
}
_GROUPS = {"n_routed_experts": 12, "n_group": 4, "topk_group": 2}
_YARN_OF_SCORES = _YARN | {"mscale": 1.4, "mscale_all_dim": 1.4}
_GEMMA4 = {
    **{"head_dim": 16, "global_head_dim": 40, "sliding_window": 16, "final_logit_softcapping": 30.0},
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
_GEMMA4_LARGE = {
    **{**_GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 0},
    "use_bidirectional_attention": "vision",
}
_CONFIGS: dict[Further, tuple[str, dict[str, Any]]] = {
    Further.LLAMA_BIASED: ("LlamaConfig", {"rope_parameters": _LONGROPE, "attention_bias": True, "mlp_bias": True}),
    Further.MINISTRAL: (
        "MinistralConfig",
        {"layer_types": _TYPES, "sliding_window": 16, "head_dim": 16, "rope_parameters": _DYNAMIC},
    ),
    Further.MINISTRAL3: ("Ministral3Config", {"head_dim": 32, "rope_parameters": _YARN_SCALED}),
    Further.SMOLLM3: ("SmolLM3Config", {"rope_parameters": _YARN}),
    Further.GRANITE: (
        "GraniteConfig",
        {
            **{"embedding_multiplier": 3.0, "attention_multiplier": 0.125, "residual_multiplier": 0.4},
            **{"logits_scaling": 1.6, "tie_word_embeddings": True},
        },
    ),
    Further.OLMO3: ("Olmo3Config", {"rope_parameters": _TWO_ROPES, "sliding_window": 16}),
    Further.GLM: ("GlmConfig", {"intermediate_size": 128, "head_dim": 32}),
    Further.GLM4: ("Glm4Config", {"head_dim": 16}),
    Further.STABLELM: ("StableLmConfig", {"use_qkv_bias": True}),
    Further.STABLELM_PARALLEL: ("StableLmConfig", {"qk_layernorm": True, "use_parallel_residual": True}),
    Further.STARCODER2: ("Starcoder2Config", {"sliding_window": 16}),
    Further.COHERE: ("CohereConfig", {"logit_scale": 0.3, "attention_bias": True}),
    Further.COHERE_PLUS: ("CohereConfig", {"logit_scale": 0.3, "use_qk_norm": True}),
    Further.COHERE2: ("Cohere2Config", {"sliding_window": 16, "logit_scale": 0.3}),
    Further.PHI4_MINI: (
        "Phi3Config",
        {
            **{"rope_parameters": _LONGROPE_OF_A_PART, "original_max_position_embeddings": LONGROPE_ORIGINAL},
            "tie_word_embeddings": True,
        },
    ),
    Further.LFM2: (
        "Lfm2Config",
        {
            **{"layer_types": ["conv", "conv", "full_attention", "conv"], "conv_bias": True},
            **{"block_multiple_of": 28, "max_position_embeddings": 512},
        },
    ),
    Further.LFM2_MOE: ("Lfm2MoeConfig", {**_LFM2_EXPERTS, "routed_scaling_factor": 1.7, "num_dense_layers": 1}),
    Further.LFM2_MOE_PLAIN: (
        "Lfm2MoeConfig",
        {**_LFM2_EXPERTS, "use_expert_bias": False, "norm_topk_prob": False, "num_dense_layers": 2},
    ),
    Further.GLM4_MOE: (
        "Glm4MoeConfig",
        {
            **{**_GLM_EXPERTS, "n_routed_experts": 12, "n_group": 4, "topk_group": 2, "n_shared_experts": 2},
            **{"use_qk_norm": True, "attention_bias": True, "routed_scaling_factor": 2.5, "head_dim": 32},
        },
    ),
    Further.GLM4_MOE_AIR: ("Glm4MoeConfig", {**_GLM_EXPERTS, "n_routed_experts": 8, "first_k_dense_replace": 2}),
    Further.OLMOE: ("OlmoeConfig", {"intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 3}),
    Further.QWEN3_MOE: (
        "Qwen3MoeConfig",
        {**_EXPERTS, "moe_intermediate_size": 64, "head_dim": 32, "norm_topk_prob": True},
    ),
    Further.MIXTRAL: ("MixtralConfig", {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 16}),
    Further.QWEN2_MOE: ("Qwen2MoeConfig", _SHARED_EXPERT),
    Further.GPT_OSS: (
        "GptOssConfig",
        {
            **{"num_local_experts": 8, "num_experts_per_tok": 3, "head_dim": 16, "sliding_window": 16},
            "rope_parameters": _YARN | {"truncate": False},
        },
    ),
    Further.GLM4_MOE_LITE: (
        "Glm4MoeLiteConfig",
        {
            **{**_LATENT, "n_routed_experts": 8, "n_shared_experts": 1, "routed_scaling_factor": 1.8},
            **{"q_lora_rank": 48, "rms_norm_eps": 0.01},
        },
    ),
    Further.DEEPSEEK_V2: (
        "DeepseekV2Config",
        {
            **{**_LATENT, **_GROUPS, "q_lora_rank": None, "rope_parameters": _YARN_OF_SCORES | {"mscale": 0.707}},
            **{"topk_method": "group_limited_greedy", "routed_scaling_factor": 16.0, "first_k_dense_replace": 1},
        },
    ),
    Further.DEEPSEEK_V2_LITE: (
        "DeepseekV2Config",
        {**_LATENT, "q_lora_rank": 64, "n_routed_experts": 8, "first_k_dense_replace": 2, "topk_method": "greedy"},
    ),
    Further.DEEPSEEK_V3: (
        "DeepseekV3Config",
        {
            **{**_LATENT, **_GROUPS, "q_lora_rank": 64, "rope_parameters": _YARN_OF_SCORES},
            **{"n_shared_experts": 1, "first_k_dense_replace": 1, "rms_norm_eps": 0.01},
        },
    ),
    Further.GEMMA4: ("Gemma4TextConfig", _GEMMA4_LARGE),
    Further.GEMMA4_MOE: (
        "Gemma4TextConfig",
        {
            **{**_GEMMA4_LARGE, "enable_moe_block": True, "num_experts": 8, "top_k_experts": 3},
            "moe_intermediate_size": 40,
        },
    ),
    Further.GEMMA4_SMALL: (
        "Gemma4TextConfig",
        {
            **{**_GEMMA4, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 512},
            **{"num_kv_shared_layers": 2, "use_double_wide_mlp": True, "num_key_value_heads": 1},
            **{"num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3},
        },
    ),
    Further.GEMMA4_UNIFIED: (
        "Gemma4UnifiedConfig",
        {
            "text_config": {**_SHAPE, **_GEMMA4, "pad_token_id": 0},
            "vision_config": {"patch_size": 2, "pooling_kernel_size": 2, "mm_embed_dim": 8, "output_proj_dims": 8},
            "audio_config": {"output_proj_dims": 8},
        },
    ),
    Further.GEMMA3_PICTURES: (
        "Gemma3Config",
        {
            "text_config": {
                **{**_SHAPE, "hidden_size": 128, "intermediate_size": 192, "head_dim": 32},
                **{"sliding_window": 16, "query_pre_attn_scalar": 24, "layer_types": _TYPES},
            },
            "vision_config": _VISION,
            "mm_tokens_per_image": 4,
        },
    ),
    Further.MISTRAL3_PICTURES: (
        "Mistral3Config",
        {
            "text_config": {**_SHAPE, "model_type": "mistral", "head_dim": 16, "sliding_window": None},
            "vision_config": {**_VISION, "model_type": "pixtral", "head_dim": 8},
            "tie_word_embeddings": False,
        },
    ),
    Further.QWEN3_5: ("Qwen3_5TextConfig", {**_DELTA, "linear_num_key_heads": 2}),
    Further.QWEN3_5_PICTURES: (
        "Qwen3_5Config",
        {
            "text_config": {**_SHAPE, **_DELTA, "linear_num_key_heads": 4, "tie_word_embeddings": True},
            "vision_config": _QWEN_VISION,
            "tie_word_embeddings": True,
        },
    ),
    Further.QWEN3_5_MOE: ("Qwen3_5MoeTextConfig", {**_DELTA, **_SHARED_EXPERT, "linear_num_key_heads": 2}),
    Further.QWEN3_5_MOE_PICTURES: (
        "Qwen3_5MoeConfig",
        {
            "text_config": {**_SHAPE, **_DELTA, **_SHARED_EXPERT, "linear_num_key_heads": 4, "num_experts": 5},
            "vision_config": _QWEN_VISION,
        },
    ),
    Further.QWEN3_NEXT: ("Qwen3NextConfig", {**_DELTA, **_SHARED_EXPERT, "linear_num_key_heads": 2}),
    Further.QWEN3_NEXT_ALIKE: (
        "Qwen3NextConfig",
        {**_DELTA, **_SHARED_EXPERT, "linear_num_key_heads": 4, "norm_topk_prob": False},
    ),
}


DELTA_MIXTURES = (Further.QWEN3_5_MOE, Further.QWEN3_5_MOE_PICTURES, Further.QWEN3_NEXT, Further.QWEN3_NEXT_ALIKE)
"""Mixtures of experts with the gated delta rule."""
_NORM_OFFSETS = {Further.GEMMA3_PICTURES, Further.QWEN3_5, Further.QWEN3_5_PICTURES, *DELTA_MIXTURES}


def further_config(kind: Further) -> transformers.PreTrainedConfig:
    """Return the configuration of one kind."""
    name, fields = copy.deepcopy(_CONFIGS[kind])
    return getattr(transformers, name)(**(fields if "text_config" in fields else _SHAPE | fields))


def further_checkpoint(kind: Further) -> Path:
    """Return the folder of a random checkpoint, made once per process; it goes when the process ends."""
    folder = scratch() / f"further-{kind}"
    if not folder.exists():
        write_further_checkpoint(folder, kind)
    return folder


def stack_experts(tensors: dict[str, torch.Tensor]) -> None:
    """Put the matrices of all experts of a layer into one tensor, gates before ups, as published folders have them."""
    found: dict[str, list[torch.Tensor]] = {}
    for name in sorted((name for name in tensors if ".experts." in name), key=_places):
        stem, _, rest = name.partition(".experts.")
        found.setdefault(f"{stem}.experts.{rest.split('.')[1]}", []).append(tensors.pop(name))
    for name in [name for name in found if name.endswith(".up_proj")]:
        pairs = zip(found.pop(name.replace(".up_proj", ".gate_proj")), found.pop(name), strict=True)
        found[name.replace(".up_proj", ".gate_up_proj")] = [torch.cat(pair) for pair in pairs]
    tensors.update({name: torch.stack(each) for name, each in found.items()})


def _places(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def write_further_checkpoint(folder: Path, kind: Further) -> None:
    """Write a whole checkpoint folder: the same bytes on every call."""
    config = further_config(kind)
    sees = "text_config" in _CONFIGS[kind][1]
    auto = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    model = auto.from_config(config, dtype=torch.float32)
    write_model(folder, model, norm_offset=float(kind in _NORM_OFFSETS), output_biases=True)
