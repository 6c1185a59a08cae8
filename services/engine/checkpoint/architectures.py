"""Architectures: how each one's config.json is read.

To add one: a function from its fields to a ModelConfig, a table of its tensor names, and a test checkpoint.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.config_fields import check_fields, warn_of_unknown_fields
from services.engine.checkpoint.model_config import Activation, ModelConfig, QkNorm, Rope
from services.engine.checkpoint.rope import read_global_and_local_ropes, read_longrope, read_rope
from services.engine.files.json_fields import JsonFields, shown

_ACTIVATIONS = {"silu": Activation.SILU, "gelu_pytorch_tanh": Activation.GELU_TANH}
# Beyond any model that there is; a product of such sizes is compared with the files before it is used.
_MOST_LAYERS = 1024
_MOST_HEADS = 1024
_MOST_HEAD_DIM = 1 << 13
_MOST_HIDDEN = 1 << 17
_MOST_INTERMEDIATE = 1 << 20
_MOST_TOKENS = 1 << 22
_FULL, _SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, slots=True)
class Architecture:
    """One class of Hugging Face checkpoints; `read_config` takes config.json and the context that is served."""

    model_type: str
    read_config: Callable[[JsonFields, int], ModelConfig]
    fields: frozenset[str]  # that read_config carries out, beside those that all architectures have
    names: Mapping[str, str]  # see tensor_names.py
    norms_are_offsets: bool = False  # a norm multiplies by 1 + the stored weight
    foreign_tokens: frozenset[str] = frozenset()  # of the tokenizer, that the embedding need not have


def read_architecture(config: JsonFields, context_length: int | None = None) -> tuple[Architecture, ModelConfig]:
    """Pick the architecture that config.json names, and read its configuration.

    `context_length` is how many positions are to be served, where those are fewer than the checkpoint allows. Raises
    CheckpointError for an unknown architecture, a missing or bad field, and a feature that is not supported.
    """
    architecture = ARCHITECTURES[name := _read_name(config)]
    if (model_type := config.raw("model_type")) != architecture.model_type:
        problem = f"must be {architecture.model_type!r}, as architectures is {name}, is {shown(model_type)}"
        raise config.error("model_type", problem)
    check_fields(config, architecture.fields)
    if "quantization_config" in config:
        raise config.error("quantization_config", "quantized weights are not supported; allowed are F32, F16 and BF16")
    max_position = config.integer("max_position_embeddings")
    model = architecture.read_config(config, min(max_position, context_length or max_position))
    warn_of_unknown_fields(config, architecture.fields)
    return architecture, model


def expand_names(table: Mapping[str, str], num_layers: int) -> dict[str, tuple[str, ...]]:
    """Return our names of the weights in each tensor that a file of an architecture with these names may hold."""
    expanded: dict[str, tuple[str, ...]] = {}
    for pattern, names in table.items():
        for layer in range(num_layers if "{i}" in pattern else 1):
            expanded[pattern.format(i=layer)] = tuple(names.format(i=layer).split())
    return expanded


def _read_name(config: JsonFields) -> str:
    match config.raw("architectures"):
        case [str(name)] if name in ARCHITECTURES:
            return name
        case names:
            allowed = ", ".join(ARCHITECTURES)
            raise config.error("architectures", f"{shown(names)} is not supported; allowed is one of {allowed}")


def _read_llama(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = _read_plain_decoder(config, context_length)
    return replace(decoder, attention_bias=config.flag("attention_bias", False))


def _read_mistral(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = _read_plain_decoder(config, context_length)
    return replace(decoder, windows=_read_one_window(config))


def _read_qwen2(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = _read_plain_decoder(config, context_length)
    return replace(decoder, attention_bias=True, windows=_read_qwen_windows(config))


def _read_qwen3(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim = _read_own_head_dim(config)
    decoder = _read_decoder(config, context_length, head_dim, (read_rope(config, head_dim),))
    return replace(
        decoder,
        attention_bias=config.flag("attention_bias", False),
        qk_norm=QkNorm.HEAD,
        windows=_read_qwen_windows(config),
    )


def _read_phi3(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim = _read_head_dim(config)
    rope = read_longrope(config, head_dim, context_length)
    return replace(_read_decoder(config, context_length, head_dim, (rope,)), windows=_read_one_window(config))


def _read_olmo2(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = _read_plain_decoder(config, context_length)
    return replace(
        decoder,
        attention_bias=config.flag("attention_bias", False),
        qk_norm=QkNorm.FULL,
        pre_norm=False,
        post_norm=True,
    )


def _read_gemma2(config: JsonFields, context_length: int) -> ModelConfig:
    types = _read_layer_types(config, lambda layer: layer % 2 == 0)
    rope = read_rope(config, _read_own_head_dim(config))
    return replace(
        _read_gemma(config, context_length, (rope,)),
        windows=_read_windows(config, types),
        attention_softcap=config.number_or_off("attn_logit_softcapping"),
        logit_softcap=config.number_or_off("final_logit_softcapping"),
    )


def _read_gemma3(config: JsonFields, context_length: int) -> ModelConfig:
    for field in ("attn_logit_softcapping", "final_logit_softcapping"):
        if field in config:
            raise config.error(field, "only null is supported")
    period = config.integer("sliding_window_pattern", 6)
    types = _read_layer_types(config, lambda layer: (layer + 1) % period != 0)
    ropes = read_global_and_local_ropes(config, _read_own_head_dim(config))
    return replace(
        _read_gemma(config, context_length, ropes),
        windows=_read_windows(config, types),
        rope_of_layer=tuple(int(kind == _SLIDING) for kind in types),
        qk_norm=QkNorm.HEAD,
    )


def _read_gemma(config: JsonFields, context_length: int, ropes: tuple[Rope, ...]) -> ModelConfig:
    """Read what all Gemmas share.

    The embedding's factor √hidden stays in float32; transformers rounds it to the weights' type, which errs more.
    """
    if config.flag("use_bidirectional_attention", False):
        raise config.error("use_bidirectional_attention", "only false is supported")
    head_dim = _read_own_head_dim(config)
    decoder = _read_decoder(config, context_length, head_dim, ropes, activation="hidden_activation", tied=True)
    return replace(
        decoder,
        attention_bias=config.flag("attention_bias", False),
        query_scale=config.number("query_pre_attn_scalar") ** -0.5,
        embedding_scale=decoder.hidden_size**0.5,
        post_norm=True,
    )


def _read_plain_decoder(config: JsonFields, context_length: int) -> ModelConfig:
    """Read a decoder with one rotary table, whose heads share the hidden size unless their own is given."""
    head_dim = _read_head_dim(config)
    return _read_decoder(config, context_length, head_dim, (read_rope(config, head_dim),))


def _read_decoder(
    config: JsonFields,
    context_length: int,
    head_dim: int,
    ropes: tuple[Rope, ...],
    *,
    activation: str = "hidden_act",
    tied: bool = False,
) -> ModelConfig:
    """Read what all architectures share; `activation` is the field that names it, `tied` the default of tying."""
    num_heads, num_layers = _read_num_heads(config), _read_num_layers(config)
    num_kv_heads = config.integer("num_key_value_heads", num_heads, maximum=_MOST_HEADS)
    if num_heads % num_kv_heads:
        raise config.error("num_key_value_heads", f"must divide num_attention_heads {num_heads}, is {num_kv_heads}")
    if head_dim % 2:
        raise config.error("head_dim", f"must be even, for rotary embeddings, is {head_dim}")
    return ModelConfig(
        architecture=_read_name(config),
        num_layers=num_layers,
        hidden_size=_read_hidden_size(config),
        intermediate_size=config.integer("intermediate_size", maximum=_MOST_INTERMEDIATE),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        vocab_size=config.integer("vocab_size", maximum=_MOST_TOKENS),
        max_position=context_length,
        norm_eps=config.number("rms_norm_eps"),
        activation=_ACTIVATIONS[config.choice(activation, _ACTIVATIONS)],
        query_scale=head_dim**-0.5,
        windows=(0,) * num_layers,
        ropes=ropes,
        rope_of_layer=(0,) * num_layers,
        tied_embeddings=config.flag("tie_word_embeddings", tied),
    )


def _read_head_dim(config: JsonFields) -> int:
    hidden_size, num_heads = _read_hidden_size(config), _read_num_heads(config)
    if "head_dim" not in config and hidden_size % num_heads:
        raise config.error("num_attention_heads", f"must divide hidden_size {hidden_size}, is {num_heads}")
    return config.integer("head_dim", hidden_size // num_heads, maximum=_MOST_HEAD_DIM)


def _read_own_head_dim(config: JsonFields) -> int:
    return config.integer("head_dim", maximum=_MOST_HEAD_DIM)


def _read_num_layers(config: JsonFields) -> int:
    return config.integer("num_hidden_layers", maximum=_MOST_LAYERS)


def _read_num_heads(config: JsonFields) -> int:
    return config.integer("num_attention_heads", maximum=_MOST_HEADS)


def _read_hidden_size(config: JsonFields) -> int:
    return config.integer("hidden_size", maximum=_MOST_HIDDEN)


def _read_layer_types(config: JsonFields, is_sliding: Callable[[int], bool]) -> list[str]:
    """Read which kind of attention each layer has; `is_sliding` is the default.  # [layers]"""
    num_layers = _read_num_layers(config)
    types = config.raw("layer_types")
    if types is None:
        return [_SLIDING if is_sliding(layer) else _FULL for layer in range(num_layers)]
    if not isinstance(types, list) or len(types) != num_layers or any(kind not in (_FULL, _SLIDING) for kind in types):
        raise config.error("layer_types", f"must be {num_layers} of {_FULL} and {_SLIDING}, is {shown(types)}")
    return types


def _read_windows(config: JsonFields, types: list[str]) -> tuple[int, ...]:
    """Read each layer's window; as in transformers, a row at position p sees p - window + 1 … p.  # [layers]"""
    return tuple(config.integer("sliding_window") if kind == _SLIDING else 0 for kind in types)


def _read_one_window(config: JsonFields) -> tuple[int, ...]:
    """Read the window that all layers have, or none where it is null.  # [layers]"""
    window = config.integer_or_off("sliding_window")
    expected = _SLIDING if window else _FULL
    if {*_read_layer_types(config, lambda _: window > 0)} != {expected}:
        raise config.error("layer_types", f"only {expected} is supported beside sliding_window {window or 'null'}")
    return (window,) * _read_num_layers(config)


def _read_qwen_windows(config: JsonFields) -> tuple[int, ...]:
    """Read the windows that `use_sliding_window` puts on the layers from `max_window_layers` on.  # [layers]"""
    has_windows = config.flag("use_sliding_window", False)
    first = config.integer("max_window_layers", minimum=0) if has_windows and "layer_types" not in config else 0
    types = _read_layer_types(config, lambda layer: has_windows and layer >= first)
    if _SLIDING in types and not has_windows:
        raise config.error("layer_types", f"{_SLIDING} needs use_sliding_window, which is false")
    return _read_windows(config, types)


_LLAMA = frozenset({"hidden_act", "attention_bias"})
_WINDOWED = frozenset({"hidden_act", "sliding_window", "layer_types"})
_QWEN2 = _WINDOWED | {"use_sliding_window", "max_window_layers"}
_GEMMA = frozenset({"hidden_activation", "attention_bias", "query_pre_attn_scalar", "use_bidirectional_attention"})
_CAPS = frozenset({"attn_logit_softcapping", "final_logit_softcapping"})
_GEMMA2 = _GEMMA | _CAPS | {"hidden_act", "sliding_window", "sliding_window_size", "layer_types"}
_GEMMA3 = _GEMMA2 | {"sliding_window_pattern", "rope_local_base_freq"}

ARCHITECTURES: dict[str, Architecture] = {
    "LlamaForCausalLM": Architecture("llama", _read_llama, _LLAMA, tensor_names.LLAMA_NAMES),
    "MistralForCausalLM": Architecture("mistral", _read_mistral, _WINDOWED, tensor_names.LLAMA_NAMES),
    "Qwen2ForCausalLM": Architecture("qwen2", _read_qwen2, _QWEN2, tensor_names.LLAMA_NAMES),
    "Qwen3ForCausalLM": Architecture("qwen3", _read_qwen3, _QWEN2 | {"attention_bias"}, tensor_names.QWEN3_NAMES),
    "Phi3ForCausalLM": Architecture("phi3", _read_phi3, _WINDOWED, tensor_names.PHI3_NAMES),
    "Olmo2ForCausalLM": Architecture("olmo2", _read_olmo2, _LLAMA, tensor_names.OLMO2_NAMES),
    "Gemma2ForCausalLM": Architecture(
        "gemma2", _read_gemma2, _GEMMA2, tensor_names.GEMMA2_NAMES, norms_are_offsets=True
    ),
    "Gemma3ForCausalLM": Architecture(
        "gemma3_text",
        _read_gemma3,
        _GEMMA3,
        tensor_names.GEMMA3_NAMES,
        norms_are_offsets=True,
        foreign_tokens=frozenset({"<image_soft_token>"}),  # all sizes share a tokenizer, not all see pictures
    ),
}
