"""The weights that a decoder of a given configuration has, under our names.

The native DecoderWeights allocates the same weights as packed matrices, and refuses other names and shapes.
"""

import math

from services.engine.checkpoint.model_config import (
    Attention,
    Experts,
    FeatureNorm,
    Features,
    GatedDelta,
    LatentAttention,
    Layer,
    ModelConfig,
    QkNorm,
    ShortConvolution,
)

Shape = tuple[int, ...]


def weight_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return the shape of every weight by name; matrices are [out, in]."""
    ends = {"embedding": (config.vocab_size, config.hidden_size), **_norm_shapes(config, "final_norm")}
    if not config.tied_embeddings:
        ends["lm_head"] = (config.vocab_size, config.hidden_size)
    if size := config.layer_input_size:
        width = config.num_layers * size
        ends |= {"layer_embedding": (config.vocab_size, width), "layer_projection": (width, config.hidden_size)}
        ends |= {"layer_input_norm": (size,)}
    shapes = {layer: _layer_shapes(config, layer) for layer in {*config.layers}}
    layers = {
        f"layers.{index}.{name}": shape
        for index, layer in enumerate(config.layers)
        for name, shape in shapes[layer].items()
    }
    if config.features is not None:
        _adapt_to_features(ends, layers, config, config.features)
    return ends | layers


def _adapt_to_features(
    ends: dict[str, Shape], layers: dict[str, Shape], config: ModelConfig, features: Features
) -> None:
    """Change the shapes to those of an attached drafter: what it shares with its target is not among its weights."""
    hidden, width = config.hidden_size, features.width
    if not features.own_embedding:
        del ends["embedding"]
    del ends["lm_head"]
    if features.head_size:
        ends["lm_head"] = (features.head_size, hidden)
    if config.reads_target:  # its features are normed with its target's weights
        ends |= {"fc": (hidden, 2 * width), "carried_projection": (width, hidden)}
        return
    ends |= {"fc": (hidden, 2 * hidden if features.fc_reads_both else features.count * width), "hidden_norm": (hidden,)}
    match features.norm:
        case FeatureNorm.ALL:
            ends |= {"feature_norm": (features.count * width,)}
        case FeatureNorm.EACH:
            ends |= {f"feature_norm.{index}": (width,) for index in range(features.count)}
    if features.fc_reads_both:
        ends |= {"embedding_norm": (hidden,)}
    block = features.block
    if block is not None and (rank := block.markov_rank):
        head_size = features.head_size or config.vocab_size
        ends |= {"markov_in": (config.vocab_size, rank), "markov_out": (head_size, rank)}
        if block.has_confidence:
            ends |= {"confidence": (1, hidden + rank), "confidence_bias": (1,)}
    if block is not None and block.continues_rows:
        ends |= {"mask_features": (features.count * width,)}
    elif features.fc_reads_both or block is not None:
        return
    for name in ("q", "k", "v"):
        rows, _ = layers[f"layers.0.{name}"]
        layers[f"layers.0.{name}"] = (rows, 2 * hidden)


def count_parameters(config: ModelConfig) -> int:
    """Return how many numbers all weights have together."""
    return sum(map(math.prod, weight_shapes(config).values()))


def count_active_parameters(config: ModelConfig) -> int:
    """Return how many numbers of the layers' matrices are used for one token; experts count only if chosen."""
    shapes = weight_shapes(config)
    named = {name: shape for name, shape in shapes.items() if name.startswith("layers.") or name == "layer_projection"}
    matrices = {name: shape for name, shape in named.items() if len(shape) > 1}
    of_experts = sum(math.prod(shape) for name, shape in matrices.items() if ".experts." in name)
    total = sum(map(math.prod, matrices.values()))
    return total - of_experts + (of_experts * config.experts.per_token // config.experts.count if config.experts else 0)


def _layer_shapes(config: ModelConfig, layer: Layer) -> dict[str, Shape]:
    hidden, inner, experts = config.hidden_size, config.mlp_size(layer), config.experts_of(layer)
    match layer:
        case Attention():
            shapes = _attention_shapes(config, layer)
        case ShortConvolution(taps=num_taps):
            shapes = _convolution_shapes(config, num_taps)
        case GatedDelta():
            shapes = _delta_shapes(config, layer)
        case LatentAttention():
            shapes = _latent_shapes(config, layer)
    if inner:
        shapes |= _mlp_shapes("", hidden, inner)
    if not config.gated_mlp:
        del shapes["gate"]
    if experts:
        shapes |= _expert_shapes(experts, hidden)
    if experts and experts.has_shared_gate and inner:
        shapes |= {"shared_gate": (1, hidden)}
    if config.mlp_bias:
        shapes |= {"up_bias": (inner,), "down_bias": (hidden,)}
    if config.mlp_bias and config.gated_mlp:
        shapes |= {"gate_bias": (inner,)}
    return shapes | _of_whole_layer(config)


def _attention_shapes(config: ModelConfig, layer: Attention) -> dict[str, Shape]:
    hidden, head_dim = config.hidden_size, config.head_dim_of(layer)
    heads = {"q": config.num_heads}
    if layer.stores:
        heads |= dict.fromkeys("k" if layer.values_are_keys else "kv", config.num_kv_heads_of(layer))
    query = config.num_heads * head_dim
    shapes: dict[str, Shape] = {name: (count * head_dim, hidden) for name, count in heads.items()}
    shapes |= {"o": (hidden, query)}
    if config.attention_bias:
        shapes |= {f"{name}_bias": (count * head_dim,) for name, count in heads.items()}
    if config.output_bias:
        shapes |= {"o_bias": (hidden,)}
    if config.attention_gate:
        shapes |= {"q_gate": (query, hidden)}
    if config.attention_sinks:
        shapes |= {"sinks": (config.num_heads,)}
    for name, num_heads in ((f"{part}_norm", count) for part, count in heads.items() if part != "v"):
        if config.qk_norm is QkNorm.HEAD:
            shapes |= {name: (head_dim,)}
        if config.qk_norm is QkNorm.EACH:
            shapes |= {f"{name}.{head}": (head_dim,) for head in range(num_heads)}
        if config.qk_norm is QkNorm.FULL:
            shapes |= {name: (num_heads * head_dim,)}
    return shapes


def _latent_shapes(config: ModelConfig, layer: LatentAttention) -> dict[str, Shape]:
    """Return the shapes of latent attention, where each head has matrices of its own of its keys and values."""
    hidden, heads = config.hidden_size, range(config.num_heads)
    shapes: dict[str, Shape] = {
        "q": (len(heads) * layer.query_dim, layer.query_rank or hidden),
        "kv_down": (layer.width, hidden),
        "kv_norm": (layer.rank,),
        "o": (hidden, len(heads) * layer.value_dim),
    }
    if layer.query_rank:
        shapes |= {"q_down": (layer.query_rank, hidden), "q_down_norm": (layer.query_rank,)}
    shapes |= {f"k_up.{head}": (layer.rank, layer.key_dim) for head in heads}
    return shapes | {f"v_up.{head}": (layer.value_dim, layer.rank) for head in heads}


def _convolution_shapes(config: ModelConfig, taps: int) -> dict[str, Shape]:
    """Return the shapes of a short convolution; each tap is a vector, and the last tap is the current position's."""
    hidden = config.hidden_size
    shapes: dict[str, Shape] = {"conv_in": (3 * hidden, hidden), "conv_out": (hidden, hidden)}
    shapes |= {f"conv.{tap}": (hidden,) for tap in range(taps)}
    if config.conv_bias:
        shapes |= {"conv_in_bias": (3 * hidden,), "conv_bias": (hidden,), "conv_out_bias": (hidden,)}
    return shapes


def _delta_shapes(config: ModelConfig, layer: GatedDelta) -> dict[str, Shape]:
    hidden, channels, heads = config.hidden_size, layer.num_channels, layer.value_heads
    return {
        "delta_qkv": (channels, hidden),
        "delta_z": (heads * layer.value_dim, hidden),
        "delta_b": (heads, hidden),
        "delta_a": (heads, hidden),
        **{f"delta_conv.{tap}": (channels,) for tap in range(layer.taps)},
        "delta_decay": (heads,),
        "delta_decay_bias": (heads,),
        "delta_scale": (layer.value_dim,),
        "delta_out": (hidden, heads * layer.value_dim),
    }


def _of_whole_layer(config: ModelConfig) -> dict[str, Shape]:
    hidden = config.hidden_size
    shapes: dict[str, Shape] = {}
    if config.pre_norm:
        shapes |= _norm_shapes(config, "attention_norm")
    if config.pre_norm and not config.parallel_mlp:
        shapes |= _norm_shapes(config, "mlp_norm")
    if config.post_norm:
        shapes |= {"post_attention_norm": (hidden,), "post_mlp_norm": (hidden,)}
    if config.layer_scale:
        shapes |= {"scale": (1,)}
    if size := config.layer_input_size:
        shapes |= {"input_gate": (size, hidden), "input_projection": (hidden, size), "post_input_norm": (hidden,)}
    return shapes


def _norm_shapes(config: ModelConfig, name: str) -> dict[str, Shape]:
    names = (name, f"{name}_bias") if config.norm_bias else (name,)
    return dict.fromkeys(names, (config.hidden_size,))


def _expert_shapes(experts: Experts, hidden: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {"router": (experts.count, hidden)}
    for expert in range(experts.count):
        shapes |= _mlp_shapes(f"experts.{expert}.", hidden, experts.size)
    if experts.have_biases:
        shapes |= {f"{name}_bias": shape[:1] for name, shape in shapes.items()}
    if experts.has_choice_bias:
        shapes |= {"choice_bias": (experts.count,)}
    if experts.have_scales:
        shapes |= {"expert_scales": (experts.count,)}
    if experts.have_norms:
        shapes |= dict.fromkeys(("router_norm", "expert_norm", "post_dense_norm", "post_expert_norm"), (hidden,))
    return shapes


def _mlp_shapes(prefix: str, hidden: int, inner: int) -> dict[str, Shape]:
    return {f"{prefix}gate": (inner, hidden), f"{prefix}up": (inner, hidden), f"{prefix}down": (hidden, inner)}
