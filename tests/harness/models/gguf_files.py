"""GGUF files made of random checkpoints, in any type: by the gguf package, and the rules of llama.cpp's conversion."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import quantize
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file

from tests.harness.models.further_checkpoints import Further
from tests.harness.models.gguf_deepseek import add_deepseek, with_heads_apart
from tests.harness.models.gguf_gemma4 import add_gemma4, gemma4_factors, gemma4_name
from tests.harness.models.gguf_vocabularies import add_value, finish

F32, F16, BF16 = (gguf.GGMLQuantizationType[name] for name in ("F32", "F16", "BF16"))
_ARCHITECTURES = {
    **{"mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3"},
    **{"cohere": "command-r", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss", "olmo3": "olmo2"},
    **{"lfm2_moe": "lfm2moe", "glm4_moe": "glm4moe", "gemma4_text": "gemma4"},
    **dict.fromkeys(("glm4_moe_lite", "deepseek_v2", "deepseek_v3"), "deepseek2"),
    **{"ministral3": "mistral3", "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe", "qwen3_next": "qwen3next"},
}
_WITH_STATES = ("qwen35", "qwen35moe", "qwen3next")
_NEIGHBOURS_TURN = ("llama", "granite", "smollm3", "mistral3")  # there, and not in folders
_WINDOWED = ("gemma2", "gemma3_text", "mistral", "mixtral", "starcoder2", "cohere2", "gpt_oss", "olmo3")
FURTHER = (
    *(Further.LLAMA_BIASED, Further.MINISTRAL3, Further.PHI4_MINI, Further.OLMO3, Further.GPT_OSS),
    *(Further.SMOLLM3, Further.GRANITE, Further.GLM4, Further.STABLELM, Further.STABLELM_PARALLEL, Further.STARCODER2),
    *(Further.COHERE, Further.COHERE_PLUS, Further.COHERE2, Further.LFM2),
    *(Further.OLMOE, Further.QWEN3_MOE, Further.MIXTRAL, Further.QWEN2_MOE),
    *(Further.LFM2_MOE, Further.LFM2_MOE_PLAIN, Further.GLM4_MOE, Further.GLM4_MOE_AIR),
    *(Further.GEMMA4, Further.GEMMA4_MOE, Further.GEMMA4_SMALL),
    *(Further.GLM4_MOE_LITE, Further.DEEPSEEK_V2, Further.DEEPSEEK_V2_LITE, Further.DEEPSEEK_V3),
    *(Further.QWEN3_5, Further.QWEN3_5_PICTURES),
    *(Further.QWEN3_5_MOE, Further.QWEN3_5_MOE_PICTURES, Further.QWEN3_NEXT),
)
"""Those that such files can hold."""


def write_gguf(
    folder: Path,
    path: Path,
    kind: gguf.GGMLQuantizationType = F32,
    *,
    tensors_each: int = 0,
    packs_inputs: bool = False,
    also: Callable[[gguf.GGUFWriter], object] = lambda _: None,
    **keys: object,
) -> Path:
    """Write what a checkpoint's folder holds, its matrices in one type; return the path, of the first file if split.

    With `packs_inputs` those of Qwen3-Next's states are as older conversions have left them. `also` adds further
    tensors. `keys` are set beside the rest, with "__" for a dot in their names, and the
    architecture's without its name.
    """
    config = _config(folder)
    model_type = config["model_type"]
    arch = _ARCHITECTURES.get(model_type, model_type)
    writer = gguf.GGUFWriter(path, arch, split_max_tensors=tensors_each)
    with safe_open(folder / "model.safetensors", framework="numpy") as stored:
        further = ("mtp.fc.weight", f"model.layers.{config['num_hidden_layers']}.eh_proj.weight")
        has_mtp = any(name in further for name in stored.keys())  # noqa: SIM118 - no mapping
    _add_hyperparameters(writer, arch, config, num_mtp_layers=int(has_mtp))
    _add_tokenizer(writer, folder, config)
    for name, value in keys.items():
        key = name.replace("__", ".")
        add_value(writer, key if key.startswith("general.") else f"{arch}.{key}", value)
    for name, values in _tensors(folder, arch, config, packs_inputs=packs_inputs).items():
        writer.add_tensor(name, *_stored(values, kind))
    also(writer)
    finish(writer)
    return next(path.parent.glob(f"{path.stem}-00001-of-*.gguf")) if tensors_each else path


def _config(folder: Path) -> dict[str, Any]:
    """The fields of the text part, if there are others."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config.get("text_config", config)


def _add_hyperparameters(writer: gguf.GGUFWriter, arch: str, config: dict[str, Any], num_mtp_layers: int) -> None:
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config["rope_parameters"]
    rope = rope.get("full_attention", rope)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"] + num_mtp_layers)
    if num_mtp_layers:
        add_value(writer, f"{arch}.nextn_predict_layers", num_mtp_layers)
    if intermediate := config.get("intermediate_size"):
        writer.add_feed_forward_length(_LFM2_INTERMEDIATE if arch == "lfm2" else intermediate)
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(_kv_heads(config))
    if eps := config.get("rms_norm_eps", config.get("norm_eps")):
        writer.add_layer_norm_rms_eps(eps)
    else:
        writer.add_layer_norm_eps(config["norm_epsilon" if arch == "starcoder2" else "layer_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    turning = config.get("qk_rope_head_dim") or int(head_dim * rope.get("partial_rotary_factor", 1.0))
    writer.add_rope_dimension_count(turning)
    if config.get("head_dim") and arch != "deepseek2":
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    _add_rope_scaling(writer, rope, config)
    if arch == "phi3":
        writer.add_sliding_window(config["sliding_window"] or 0)
    if config.get("sliding_window") and config["model_type"] in _WINDOWED:
        writer.add_sliding_window(config["sliding_window"])
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if arch == "gemma3":
        writer.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    _add_further_hyperparameters(writer, arch, config)


def _kv_heads(config: dict[str, Any]) -> int | list[int]:
    """Of each layer, where some convolve."""
    heads: int = config["num_key_value_heads"]
    if config["model_type"] not in ("lfm2", "lfm2_moe"):
        return heads
    return [0 if kind == "conv" else heads for kind in config["layer_types"]]


def _add_rope_scaling(writer: gguf.GGUFWriter, rope: dict[str, Any], config: dict[str, Any]) -> None:
    name = "original_max_position_embeddings"
    if original := rope.get(name, config.get(name, 0)):
        writer.add_rope_scaling_orig_ctx_len(original)
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if "beta_fast" in rope:
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if "llama_4_scaling_beta" in rope:
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
    if rope["rope_type"] == "longrope":
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(rope["factor"]) / math.log(original)))


def _add_further_hyperparameters(writer: gguf.GGUFWriter, arch: str, config: dict[str, Any]) -> None:
    names = ("num_local_experts", "num_experts", "n_routed_experts")
    if count := next((config[name] for name in names if config.get(name)), 0):
        writer.add_expert_count(count)
        writer.add_expert_used_count(config.get("num_experts_per_tok", 0))
    if size := config.get("moe_intermediate_size"):
        writer.add_expert_feed_forward_length(size)
    if size := config.get("shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(size)
    if arch == "granite":
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if arch in ("command-r", "cohere2"):
        writer.add_logit_scale(config["logit_scale"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if arch in ("lfm2moe", "glm4moe"):
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        dense = "num_dense_layers" if arch == "lfm2moe" else "first_k_dense_replace"
        writer.add_leading_dense_block_count(config[dense])
    if arch == "glm4moe":
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    if arch == "deepseek2":
        add_deepseek(writer, config)
    if arch in ("lfm2", "lfm2moe"):
        writer.add_shortconv_l_cache(config["conv_L_cache"])
    if arch in ("qwen35", "qwen35moe"):
        writer.add_rope_dimension_sections([11, 11, 10, 0])
    if arch in _WITH_STATES:
        writer.add_full_attention_interval(4)
        writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
        writer.add_ssm_inner_size(config["linear_num_value_heads"] * config["linear_value_head_dim"])
    if arch == "gemma4":
        add_gemma4(writer, config)
    if arch == "stablelm":
        writer.add_parallel_residual(config["use_parallel_residual"])


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    description = json.loads((folder / "tokenizer.json").read_text())
    ids = description["model"]["vocab"] | {token["content"]: token["id"] for token in description["added_tokens"]}
    tokens = [f"[PAD{token_id}]" for token_id in range(config["vocab_size"])]
    types = [gguf.TokenType.UNUSED] * len(tokens)
    special = {token["content"] for token in description["added_tokens"]}
    for token, token_id in ids.items():
        tokens[token_id] = token
        types[token_id] = gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(merge) for merge in description["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(True)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())


def _tensors(folder: Path, arch: str, config: dict[str, Any], *, packs_inputs: bool) -> dict[str, NDArray[np.float32]]:
    """The tensors under the names and in the order of rows that llama.cpp wants."""
    layers = config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(_model_arch(arch), layers + 1)
    tensors = {}
    stored = _of_text(load_file(folder / "model.safetensors"))
    stored = {name.replace("mtp.layers.0.", f"model.layers.{layers}."): each for name, each in stored.items()}
    if not packs_inputs:
        _unpack_inputs(stored, config)
    if arch == "deepseek2":
        with_heads_apart(stored, config)
    for stored_name, values in (_stacked(stored) if arch == "gemma4" else _apart(_stacked(stored))).items():
        known = names.get_name(_known_by_package(stored_name), try_suffixes=(".weight", ".bias"))
        known = gemma4_name(stored_name, known) if arch == "gemma4" else known
        around = _AROUND_MTP.get(stored_name.replace(f"model.layers.{layers}.", ""))
        name = f"blk.{layers}.{around}" if around else known
        assert name is not None, stored_name
        name += ".weight" * name.endswith("sinks")
        tensors[name] = np.ascontiguousarray(_as_in_file(name, np.atleast_1d(values.squeeze()), arch, config))
    return tensors | _rope_factors(config)


def _known_by_package(name: str) -> str:
    for ours, theirs in _OTHER_NAMES.items():
        name = name.replace(ours, theirs)
    return name.removeprefix("model.") if ".feed_forward.experts." in name else name


def _of_text(stored: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Without those that see."""
    return {name.replace(".language_model", ""): each for name, each in stored.items() if ".visual." not in name}


def _unpack_inputs(stored: dict[str, torch.Tensor], config: dict[str, Any]) -> None:
    """Queries, keys and values of all key heads in one tensor, and their gates in another."""
    for name in [name for name in stored if name.endswith("in_proj_qkvz.weight")]:
        packed = stored.pop(name)
        groups, key = config["linear_num_key_heads"], config["linear_key_head_dim"]
        value = config["linear_num_value_heads"] // groups * config["linear_value_head_dim"]
        parts = packed.reshape(groups, -1, packed.shape[-1]).split([key, key, value, value], dim=1)
        *inputs, gates = (part.reshape(-1, packed.shape[-1]) for part in parts)
        stored[name.replace("qkvz", "qkv")], stored[name.replace("qkvz", "z")] = torch.cat(inputs), gates


def _as_in_file(name: str, values: NDArray[np.float32], arch: str, config: dict[str, Any]) -> NDArray[np.float32]:
    if arch in _NEIGHBOURS_TURN and (".attn_q." in name or ".attn_k." in name):
        heads = config["num_attention_heads" if ".attn_q." in name else "num_key_value_heads"]
        return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
    if arch in _WITH_STATES and (".ssm_" in name or ".attn_qkv." in name or ".attn_gate." in name):
        return _delta_as_in_file(name, values, config, by_turns=arch != "qwen3next")
    has_offsets = arch in ("gemma2", "gemma3", *_WITH_STATES)
    return values + np.float32(1.0) if has_offsets and name.endswith("norm.weight") else values


def _delta_as_in_file(
    name: str, values: NDArray[np.float32], config: dict[str, Any], *, by_turns: bool
) -> NDArray[np.float32]:
    """With -exp(A_log), and with `by_turns` the value heads of all key heads by turns."""
    heads, groups = config["linear_num_value_heads"], config["linear_num_key_heads"]
    first = 2 * groups * config["linear_key_head_dim"] if ".attn_qkv." in name or ".ssm_conv1d." in name else 0
    values = -np.exp(values) if name.endswith(".ssm_a") else values
    if name.endswith(".ssm_norm.weight") or not by_turns:
        return values
    if name.endswith(".ssm_out.weight"):
        columns = values.reshape(len(values), groups, heads // groups, -1)
        return columns.swapaxes(1, 2).reshape(values.shape)
    turned = values[first:].reshape(groups, heads // groups, -1, *values.shape[1:]).swapaxes(0, 1)
    return np.concatenate([values[:first], turned.reshape(-1, *values.shape[1:])])


def _stacked(stored: dict[str, torch.Tensor]) -> dict[str, NDArray[np.float32]]:
    """Those of all experts and heads as one, under a name without their numbers."""
    found: dict[str, list[NDArray[np.float32]]] = {}
    for name in sorted(stored, key=_numbers):
        found.setdefault(_NUMBER_OF_ONE.sub("", name), []).append(stored[name].float().numpy())
    return {name: np.stack(each) if len(each) > 1 else each[0] for name, each in found.items()}


def _apart(stacked: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Gates and ups, which come by turns in the tensors of all experts, each in one of its own, by outputs."""
    found: dict[str, NDArray[np.float32]] = {}
    for name, values in stacked.items():
        if ".experts." not in name or name.endswith(".weight"):
            found[name] = values
            continue
        stem, end = name.removesuffix("_bias"), ".bias" if name.endswith("_bias") else ".weight"
        by_outputs = values if end == ".bias" else values.swapaxes(1, 2)
        parts = {"gate_proj": by_outputs[:, ::2], "up_proj": by_outputs[:, 1::2]} if "gate_up" in name else {}
        for part, each in (parts or {"down_proj": by_outputs}).items():
            found[f"{stem.rpartition('.')[0]}.{part}{end}"] = each
    return found


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def _model_arch(arch: str) -> gguf.MODEL_ARCH:
    return next(known for known, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)


def _rope_factors(config: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    if config["model_type"] == "gemma4_text":
        return gemma4_factors(config)
    rope = config["rope_parameters"]
    if rope.get("rope_type") == "longrope":
        names = {f"rope_factors_{which}.weight": f"{which}_factor" for which in ("long", "short")}
        return {name: np.array(rope[field], dtype=np.float32) for name, field in names.items()}
    if rope.get("rope_type") != "llama3":
        return {}
    factor, low, high, original = (
        rope[name] for name in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    )
    factors = []
    for i in range(0, config["head_dim"], 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / config["head_dim"])
        smooth = min(1.0, max(0.0, (original / wavelength - low) / (high - low)))
        factors.append(1 / ((1 - smooth) / factor + smooth))
    return {"rope_freqs.weight": np.array(factors, dtype=np.float32)}


def _stored(values: NDArray[np.float32], kind: gguf.GGMLQuantizationType) -> tuple[Any, ...]:
    """A tensor's bytes and type; vectors stay as they are, and so do matrices whose rows are no whole blocks."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    if values.ndim == 1 or values.shape[-1] % block or kind == F32:
        return (values,)
    if kind.name in _SCALES:  # the package reads these types and does not write them
        return _random_blocks(values.shape, block, size, kind), None, kind
    return quantize(values, kind), None, kind


def _random_blocks(shape: tuple[int, ...], block: int, size: int, kind: gguf.GGMLQuantizationType) -> NDArray[np.uint8]:
    """Blocks of any bits, but for their scales, which are kept small: those are the float16 numbers among them."""
    generator = np.random.default_rng(int(kind))
    blocks = generator.integers(0, 256, (shape[0], shape[1] // block, size), dtype=np.uint8)
    for offset in _SCALES[kind.name]:
        blocks[..., offset : offset + 2] = np.array([0.01], dtype=np.float16).view(np.uint8)
    return blocks.reshape(shape[0], -1)


_OTHER_NAMES = {
    **{".dt_bias": ".dt_proj.bias", ".e_score_correction_bias": ".e_score_correction.bias"},
    ".expert_bias": ".expert_bias.bias",
}
_AROUND_MTP = {  # which the package does not know for all architectures
    "mtp.fc.weight": "nextn.eh_proj.weight",
    "mtp.pre_fc_norm_embedding.weight": "nextn.enorm.weight",
    "mtp.pre_fc_norm_hidden.weight": "nextn.hnorm.weight",
    "mtp.norm.weight": "nextn.shared_head_norm.weight",
    "eh_proj.weight": "nextn.eh_proj.weight",
    "enorm.weight": "nextn.enorm.weight",
    "hnorm.weight": "nextn.hnorm.weight",
    "shared_head.norm.weight": "nextn.shared_head_norm.weight",
    "shared_head.head.weight": "nextn.shared_head_head.weight",
    "embed_tokens.weight": "nextn.embed_tokens.weight",
}
_LFM2_INTERMEDIATE = 84  # two thirds of 96, up to the next multiple of 28
_NUMBER_OF_ONE = re.compile(r"(?<=experts)\.\d+|\.norms\.\d+")
_SCALES = {  # where the scales lie in a block
    **{"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)},
    **{"IQ4_NL": (0,), "IQ4_XS": (0,), "IQ3_S": (0,), "IQ2_XXS": (0,)},
}
