"""The fields of config.json that all architectures share."""

from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import Activation, ModelConfig, Rope, attention_layers
from services.engine.files.json_fields import JsonFields

_ACTIVATIONS = {
    **dict.fromkeys(("silu", "swish"), Activation.SILU),
    **dict.fromkeys(("gelu", "gelu_python"), Activation.GELU),
    **dict.fromkeys(("gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_accurate"), Activation.GELU_TANH),
}
# Larger than any existing model; products of such sizes are compared with the files before they are used.
_MOST_LAYERS = 1024
MOST_HEADS = 1024
MOST_HEAD_DIM = 1 << 13
_MOST_HIDDEN = 1 << 17
MOST_INTERMEDIATE = 1 << 20
_MOST_TOKENS = 1 << 22


def read_plain_decoder(config: JsonFields, context_length: int) -> ModelConfig:
    """Read a decoder with one rotary table; heads divide the hidden size unless `head_dim` is given.

    Raises CheckpointError for a bad field.
    """
    head_dim = read_head_dim(config)
    return read_decoder(config, context_length, head_dim, (read_rope(config, head_dim, context_length),))


def read_decoder(
    config: JsonFields,
    context_length: int,
    head_dim: int,
    ropes: tuple[Rope, ...],
    *,
    activation: str = "hidden_act",
    norm_eps: str = "rms_norm_eps",
) -> ModelConfig:
    """Read the fields of all architectures; `activation` and `norm_eps` are the names of two of them.

    Raises CheckpointError for a bad field.
    """
    num_heads = read_num_heads(config)
    num_kv_heads = config.integer("num_key_value_heads", num_heads, maximum=MOST_HEADS)
    if num_heads % num_kv_heads:
        raise config.error("num_key_value_heads", f"must divide num_attention_heads {num_heads}, is {num_kv_heads}")
    if head_dim % 2:
        raise config.error("head_dim", f"must be even, for rotary embeddings, is {head_dim}")
    return ModelConfig(
        architecture=read_name(config),
        layers=attention_layers([0] * read_num_layers(config)),
        hidden_size=_read_hidden_size(config),
        intermediate_size=config.integer("intermediate_size", maximum=MOST_INTERMEDIATE),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        vocab_size=config.integer("vocab_size", maximum=_MOST_TOKENS),
        max_position=context_length,
        norm_eps=config.number(norm_eps),
        activation=_ACTIVATIONS[config.choice(activation, _ACTIVATIONS)],
        query_scale=head_dim**-0.5,
        ropes=ropes,
        tied_embeddings=config.flag("tie_word_embeddings", False),
    )


def read_name(config: JsonFields) -> str:
    """Return the only name in `architectures`, which must be there."""
    names = config.raw("architectures")
    return str(names[0]) if isinstance(names, list) else ""


def read_head_dim(config: JsonFields) -> int:
    """Read the size of a head, by default the hidden size divided by the heads; raises CheckpointError."""
    hidden_size, num_heads = _read_hidden_size(config), read_num_heads(config)
    if "head_dim" not in config and hidden_size % num_heads:
        raise config.error("num_attention_heads", f"must divide hidden_size {hidden_size}, is {num_heads}")
    return config.integer("head_dim", hidden_size // num_heads, maximum=MOST_HEAD_DIM)


def read_own_head_dim(config: JsonFields) -> int:
    """Read the size of a head, which must be given; raises CheckpointError."""
    return config.integer("head_dim", maximum=MOST_HEAD_DIM)


def read_num_layers(config: JsonFields) -> int:
    """Read the number of layers; raises CheckpointError."""
    return config.integer("num_hidden_layers", maximum=_MOST_LAYERS)


def read_num_heads(config: JsonFields) -> int:
    """Read the number of heads of queries; raises CheckpointError."""
    return config.integer("num_attention_heads", maximum=MOST_HEADS)


def _read_hidden_size(config: JsonFields) -> int:
    return config.integer("hidden_size", maximum=_MOST_HIDDEN)
