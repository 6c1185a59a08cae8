"""OLMo 2 and 3: norms only after the sublayers, and over all heads of query and key together."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_head_dim, read_plain_decoder
from services.engine.checkpoint.architectures.layer_kinds import SLIDING, every_but, read_layer_types, read_layers
from services.engine.checkpoint.architectures.rope import read_global_and_local_ropes
from services.engine.checkpoint.model_config import ModelConfig, QkNorm
from services.engine.files.json_fields import JsonFields


def _read_olmo2(config: JsonFields, context_length: int) -> ModelConfig:
    return _with_post_norms(read_plain_decoder(config, context_length), config)


def _read_olmo3(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim = read_head_dim(config)
    types = read_layer_types(config, every_but(4))
    ropes = read_global_and_local_ropes(config, head_dim, context_length, local_theta="rope_theta")
    return replace(
        _with_post_norms(read_decoder(config, context_length, head_dim, ropes), config),
        layers=read_layers(config, types, [int(kind == SLIDING) for kind in types]),
    )


def _with_post_norms(decoder: ModelConfig, config: JsonFields) -> ModelConfig:
    has_bias = config.flag("attention_bias", False)
    return replace(
        decoder,
        attention_bias=has_bias,
        output_bias=has_bias,
        qk_norm=QkNorm.FULL,
        pre_norm=False,
        post_norm=True,
    )


OLMO = {
    "Olmo2ForCausalLM": Architecture(
        model_type="olmo2",
        models="OLMo 2",
        features="norms only after the sublayers, and over all heads of query and key",
        read_config=_read_olmo2,
        fields=fields("hidden_act attention_bias"),
        names=tensor_names.OLMO2_NAMES,
        defaults={"rms_norm_eps": 1e-5, "hidden_act": "silu"},
    ),
    "Olmo3ForCausalLM": Architecture(
        model_type="olmo3",
        models="OLMo 3",
        features="as OLMo 2, with windows on three of four layers, whose rotary table is not scaled",
        read_config=_read_olmo3,
        fields=fields("hidden_act attention_bias sliding_window layer_types"),
        names=tensor_names.OLMO2_NAMES,
        defaults={"rms_norm_eps": 1e-5, "hidden_act": "silu", "sliding_window": 4096, "rope_theta": 500_000.0},
    ),
}
