"""StarCoder2: layer norms, biases on all products, an MLP without a gate."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_head_dim
from services.engine.checkpoint.architectures.layer_kinds import read_layers_alike
from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import ModelConfig, Norm
from services.engine.files.json_fields import JsonFields


def _read_starcoder2(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim, has_bias = read_head_dim(config), config.flag("use_bias", True)
    rope = read_rope(config, head_dim, context_length)
    return replace(
        read_decoder(config, context_length, head_dim, (rope,), norm_eps="norm_epsilon"),
        layers=read_layers_alike(config),
        norm=Norm.LAYER,
        norm_bias=True,
        attention_bias=has_bias,
        output_bias=has_bias,
        mlp_bias=has_bias,
        gated_mlp=False,
    )


STARCODER = {
    "Starcoder2ForCausalLM": Architecture(
        model_type="starcoder2",
        models="StarCoder2 (3B, 7B, 15B)",
        features="layer norms; biases on all products; no gate in the MLP; a window on all layers",
        read_config=_read_starcoder2,
        fields=fields("hidden_act norm_epsilon use_bias sliding_window layer_types"),
        names=tensor_names.STARCODER2_NAMES,
        defaults={
            **{"norm_epsilon": 1e-5, "hidden_act": "gelu_pytorch_tanh", "num_key_value_heads": 2, "use_bias": True},
            **{"sliding_window": None, "tie_word_embeddings": True},
        },
    ),
}
