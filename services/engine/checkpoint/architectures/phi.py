"""Phi-3, 3.5 and 4: fused tensors, and rotary factors for long contexts."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_head_dim
from services.engine.checkpoint.architectures.layer_kinds import read_layers_alike
from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.files.json_fields import JsonFields

_ROPE_TYPES = ("default", "longrope", "su")


def _read_phi3(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim = read_head_dim(config)
    rope = read_rope(config, head_dim, context_length, partial=1.0, types=_ROPE_TYPES)
    return replace(read_decoder(config, context_length, head_dim, (rope,)), layers=read_layers_alike(config))


PHI = {
    "Phi3ForCausalLM": Architecture(
        model_type="phi3",
        models="Phi-3, 3.5 and 4, with their mini and medium sizes",
        features="fused tensors; rotary embeddings in a part of each head; windows",
        read_config=_read_phi3,
        fields=fields("hidden_act sliding_window layer_types"),
        names=tensor_names.PHI3_NAMES,
        defaults={
            **{"rms_norm_eps": 1e-5, "hidden_act": "silu", "sliding_window": None},
            "original_max_position_embeddings": 4096,
        },
    ),
}
