"""GGUF architectures: how each one's hyperparameters become the fields of config.json that architectures.py reads.

To add one: what it has beside what all have, and its entry in GGUF_ARCHITECTURES.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from services.engine.checkpoint.gguf_hyperparameters import Hyperparameters
from services.engine.checkpoint.gguf_names import (
    FIRST_QUERY_BIAS,
    FIRST_UP_BIAS,
    GGUF_FUSED_NAMES,
    GGUF_NAMES,
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


def read_gguf_config(metadata: Metadata, tensors: GgufTensors) -> tuple[GgufArchitecture, JsonFields]:
    """Pick the architecture that the file names, and translate its hyperparameters.

    Raises CheckpointError for an architecture that is not served, and for what would change what is computed.
    """
    if (name := metadata.required_text("general.architecture")) not in GGUF_ARCHITECTURES:
        allowed = ", ".join(GGUF_ARCHITECTURES)
        raise metadata.error("general.architecture", f"{shown(name)} is not supported; allowed are {allowed}")
    found, architecture = Hyperparameters(metadata, name, tensors), GGUF_ARCHITECTURES[name]
    found.check_all_carried_out()
    if name == "llama" and found["attention.sliding_window"]:
        architecture = MISTRAL
    labels = {"architectures": [architecture.name], "model_type": architecture.model_type}
    return architecture, found.as_config(labels | architecture.translate(found))


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
    pattern = found["attention.sliding_window_pattern"]
    if isinstance(pattern, list):
        fields["layer_types"] = [_SLIDING if slides else _FULL for slides in pattern]
    return fields


def _refuse_windows(found: Hyperparameters) -> None:
    if window := found["attention.sliding_window"]:
        raise found.error("attention.sliding_window", f"only 0 is supported here, is {shown(window)}")


MISTRAL = GgufArchitecture("MistralForCausalLM", "mistral", _translate_mistral, GGUF_NAMES, permutes_heads=True)
GGUF_ARCHITECTURES = {
    "llama": GgufArchitecture("LlamaForCausalLM", "llama", _translate_llama, GGUF_NAMES, permutes_heads=True),
    "qwen2": GgufArchitecture("Qwen2ForCausalLM", "qwen2", _translate_qwen2, GGUF_NAMES),
    "qwen3": GgufArchitecture("Qwen3ForCausalLM", "qwen3", _translate_qwen3, GGUF_NAMES),
    "phi3": GgufArchitecture("Phi3ForCausalLM", "phi3", _translate_phi3, GGUF_FUSED_NAMES),
    "olmo2": GgufArchitecture("Olmo2ForCausalLM", "olmo2", _translate_olmo2, GGUF_NAMES),
    "gemma2": GgufArchitecture("Gemma2ForCausalLM", "gemma2", _translate_gemma2, GGUF_NAMES),
    "gemma3": GgufArchitecture("Gemma3ForCausalLM", "gemma3_text", _translate_gemma3, GGUF_NAMES),
}
