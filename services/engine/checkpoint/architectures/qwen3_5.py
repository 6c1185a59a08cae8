"""Qwen 3.5, 3.6 and 3.8: three of four layers carry a state by the gated delta rule instead of attending."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, MtpNames, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_num_layers, read_own_head_dim
from services.engine.checkpoint.architectures.layer_kinds import FULL, every_but, read_listed_types
from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import Attention, GatedDelta, ModelConfig, QkNorm
from services.engine.files.json_fields import JsonFields, shown

LINEAR = "linear_attention"
_DIM_UNIT = 32  # a state's heads have a multiple of so many rows and columns
_MOST_DIM = 256
_FEWEST_TAPS, _MOST_TAPS = 2, 32
_MOST_HEADS = 1 << 12
_DEFAULT_INTERVAL = 4
_PARTIAL = 0.25
_ACTIVATIONS = ("silu", "swish")


def read_qwen3_5(config: JsonFields, context_length: int) -> ModelConfig:
    """Read a decoder with the gated delta rule on some layers, and gated attention on the others.

    Raises CheckpointError for a bad field.
    """
    if config.flag("attention_bias", False):
        raise config.error("attention_bias", "only false is supported")
    if not config.flag("attn_output_gate", True):
        raise config.error("attn_output_gate", "only true is supported")
    for name in ("hidden_act", "output_gate_type"):  # also of the convolutions, and of the gates after the states
        config.choice(name, _ACTIVATIONS, _ACTIVATIONS[0])
    head_dim, types, delta = read_own_head_dim(config), _read_layer_types(config), _read_delta(config)
    rope = read_rope(config, head_dim, context_length, partial=_PARTIAL)
    return replace(
        read_decoder(config, context_length, head_dim, (rope,)),
        layers=tuple(delta if kind == LINEAR else Attention() for kind in types),
        qk_norm=QkNorm.HEAD,
        attention_gate=True,
    )


def _read_layer_types(config: JsonFields) -> list[str]:
    """Read the kind of each layer; by default every fourth attends, and at least one must.  # [layers]"""
    if (types := read_listed_types(config, FULL, LINEAR)) is None:
        num_layers = read_num_layers(config)
        is_linear = every_but(config.integer("full_attention_interval", _DEFAULT_INTERVAL, maximum=num_layers))
        return [LINEAR if is_linear(layer) else FULL for layer in range(num_layers)]
    if FULL not in types:
        raise config.error("layer_types", f"must have {FULL} at least once, is {shown(types)}")
    return types


def _read_delta(config: JsonFields) -> GatedDelta:
    delta = GatedDelta(
        key_heads=config.integer("linear_num_key_heads", maximum=_MOST_HEADS),
        value_heads=config.integer("linear_num_value_heads", maximum=_MOST_HEADS),
        key_dim=config.integer("linear_key_head_dim", maximum=_MOST_DIM),
        value_dim=config.integer("linear_value_head_dim", maximum=_MOST_DIM),
        taps=config.integer("linear_conv_kernel_dim", minimum=_FEWEST_TAPS, maximum=_MOST_TAPS),
    )
    if delta.value_heads % delta.key_heads:
        problem = f"must be a multiple of linear_num_key_heads {delta.key_heads}, is {delta.value_heads}"
        raise config.error("linear_num_value_heads", problem)
    for field, size in (("linear_key_head_dim", delta.key_dim), ("linear_value_head_dim", delta.value_dim)):
        if size % _DIM_UNIT:
            raise config.error(field, f"must be a multiple of {_DIM_UNIT}, is {size}")
    return delta


FIELDS = fields(
    "hidden_act attention_bias layer_types full_attention_interval attn_output_gate output_gate_type",
    "mamba_ssm_dtype mtp_num_hidden_layers mtp_use_dedicated_embeddings",
    "linear_conv_kernel_dim linear_key_head_dim linear_value_head_dim",
    "linear_num_key_heads linear_num_value_heads",
)
MTP = MtpNames(
    prefix="mtp.",
    layer="mtp.layers.0.",
    others={
        "fc.weight": "fc",
        "pre_fc_norm_embedding.weight": "embedding_norm",
        "pre_fc_norm_hidden.weight": "hidden_norm",
        "norm.weight": "final_norm",
    },
)
DEFAULTS = {
    **{"rms_norm_eps": 1e-6, "hidden_act": "silu", "head_dim": 256, "linear_conv_kernel_dim": 4},
    **{"linear_key_head_dim": 128, "linear_value_head_dim": 128},
    **{"linear_num_key_heads": 16, "linear_num_value_heads": 32},
    **{"num_attention_heads": 16, "max_position_embeddings": 32_768},
}
QWEN3_5 = {
    "Qwen3_5ForCausalLM": Architecture(
        model_type="qwen3_5_text",
        models="Qwen 3.5, 3.6 and 3.8 (dense), without images",
        features="three of four layers carry a state by the gated delta rule; gated attention; norms of query and key",
        read_config=read_qwen3_5,
        fields=FIELDS,
        names=tensor_names.QWEN3_5_NAMES,
        defaults={
            **DEFAULTS,
            **{"vocab_size": 248_320, "hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 32},
            "num_key_value_heads": 4,
        },
        norms_are_offsets=True,
        mtp=MTP,
    )
}
