"""Small random models, and a decoder that takes whatever rows of whatever sequences a test wants."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import (
    Activation,
    Attention,
    Experts,
    ExpertScores,
    LatentAttention,
    ModelConfig,
    Norm,
    QkNorm,
    Rope,
    ShortConvolution,
)
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.config import KV_FORMATS
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, DecoderConfig, Device, Pass
from services.engine.decoder.native.testing import poison

Row = tuple[int, int]
"""A sequence, and a position in it."""


def rope(rotary_dim: int, base: float = 100.0, scale: float = 1.0) -> Rope:
    return Rope(frequencies=tuple(base ** (-i / rotary_dim) for i in range(0, rotary_dim, 2)), scale=scale)


PLAIN = ModelConfig(
    architecture="plain",
    layers=(Attention(), Attention()),
    hidden_size=70,
    intermediate_size=100,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=150,
    max_position=512,
    norm_eps=1e-6,
    activation=Activation.SILU,
    query_scale=0.5,
    ropes=(rope(16),),
    tied_embeddings=False,
)

_OTHER_HEADS = replace(
    PLAIN,
    num_heads=4,
    num_kv_heads=2,
    head_dim=20,
    qk_norm=QkNorm.HEAD,
    value_norm=True,
    layer_scale=True,
    post_norm=True,
)
"""As Gemma 4, whose layers without a window have other heads."""

LATENT = LatentAttention(query_rank=48, rank=64, turning=32, key_dim=64, value_dim=96, norm_eps=1e-6)

MODELS = {
    "plain": PLAIN,
    "latent vectors": replace(PLAIN, num_heads=5, num_kv_heads=1, layers=(LATENT, LATENT), ropes=(rope(32),)),
    "both norms, caps, windows, gelu, tied": replace(
        PLAIN,
        hidden_size=96,
        num_heads=2,
        head_dim=80,
        ropes=(rope(80), rope(80, base=1e4, scale=1.2)),
        layers=(Attention(window=20), Attention(rope=1)),
        post_norm=True,
        attention_softcap=5.0,
        logit_softcap=3.0,
        embedding_scale=96**0.5,
        activation=Activation.GELU_TANH,
        tied_embeddings=True,
    ),
    "norm of each head, biases, a group of eight, sinks": replace(
        PLAIN,
        num_heads=8,
        num_kv_heads=1,
        head_dim=32,
        ropes=(rope(32), Rope(frequencies=(0.0,))),
        layers=(Attention(), Attention(rope=1)),
        qk_norm=QkNorm.HEAD,
        attention_sinks=True,
        attention_bias=True,
        output_bias=True,
        mlp_bias=True,
        logit_scale=0.5,
    ),
    "norm of all heads, norms after only, half of each head rotated": replace(
        PLAIN,
        num_heads=2,
        head_dim=64,
        ropes=(rope(32),),
        qk_norm=QkNorm.FULL,
        pre_norm=False,
        post_norm=True,
        layers=(Attention(window=5), Attention(window=40)),
    ),
    "short convolutions with biases, before and behind attention": replace(
        PLAIN, layers=(ShortConvolution(taps=3), Attention(), ShortConvolution(taps=4)), conv_bias=True
    ),
    "layer norms, wide heads of an odd group, a plain MLP beside attention": replace(
        PLAIN,
        hidden_size=33,
        num_heads=3,
        num_kv_heads=1,
        head_dim=128,
        ropes=(rope(128),),
        norm=Norm.LAYER,
        norm_bias=True,
        qk_norm=QkNorm.EACH,
        mlp_bias=True,
        gated_mlp=False,
        parallel_mlp=True,
    ),
    "heads by layers, values that are keys, inputs and scales of layers, shared keys and values": replace(
        _OTHER_HEADS,
        ropes=(rope(36), rope(20)),
        layers=(
            Attention(window=20, rope=1),
            Attention(head_dim=36, num_kv_heads=1, values_are_keys=True),
            Attention(window=20, rope=1, kv_layer=0, mlp_size=130),
            Attention(head_dim=36, num_kv_heads=1, kv_layer=1, mlp_size=130),
        ),
        layer_input_size=10,
    ),
}

EXPERT_MODELS = {
    "experts": replace(
        PLAIN, intermediate_size=0, experts=Experts(count=7, per_token=3, size=40, are_normalised=False)
    ),
    "many experts, whose weights sum up to 1, and an MLP by a gate": replace(
        PLAIN,
        intermediate_size=50,
        experts=Experts(count=34, per_token=9, size=24, are_normalised=True, has_shared_gate=True),
    ),
    "experts with biases and clamped gates, sinks, windows": replace(
        PLAIN,
        intermediate_size=0,
        experts=Experts(count=6, per_token=4, size=48, are_normalised=True, have_biases=True),
        activation=Activation.CLAMPED_SWIGLU,
        attention_sinks=True,
        attention_bias=True,
        output_bias=True,
        layers=(Attention(window=20), Attention()),
    ),
    "groups of experts with sigmoids, chosen by a bias, and an MLP, after a layer without": replace(
        PLAIN,
        intermediate_size=30,
        experts=Experts(
            count=12,
            per_token=4,
            size=40,
            scores=ExpertScores.SIGMOID,
            are_normalised=True,
            sum_offset=0.5,
            weight_scale=2.5,
            groups=4,
            groups_per_token=2,
            has_choice_bias=True,
        ),
        layers=(Attention(mlp_size=90, has_experts=False), Attention()),
    ),
    "heads by layers, experts beside an MLP, each with norms": replace(
        _OTHER_HEADS,
        ropes=(rope(264), rope(20)),
        layers=(Attention(window=20, rope=1), Attention(head_dim=264, num_kv_heads=1)),
        experts=Experts(count=7, per_token=3, size=40, are_normalised=True, have_scales=True, have_norms=True),
    ),
}


def random_weights(config: ModelConfig, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Weights that keep activations near 1, sharpen the attention and spread the logits."""
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in weight_shapes(config).items():
        values = rng.standard_normal(shape)
        if ("norm" in name and not name.endswith("bias")) or name.endswith((".scale", "_scales")):
            values = 1.0 + 0.3 * values
        elif name.endswith("choice_bias"):
            values *= 0.1
        elif len(shape) == 2 and name not in ("embedding", "markov_in"):
            values *= shape[1] ** -0.5
        weights[name] = values.astype(np.float32)
    return weights


class PagedDecoder:
    """A decoder whose sequences lie in scattered blocks, every free one of them poisoned with NaN."""

    def __init__(
        self,
        config: ModelConfig,
        device: Device | Seq[Device],
        weight_format: str,
        *,
        tokens: NDArray[np.int32],
        seed: int = 0,
        blocks: Mapping[str, str] | None = None,
        target: Decoder | None = None,
    ) -> None:
        """`tokens` are those of all sequences, [sequences, positions]; weights in blocks are left to the caller."""
        self.tokens = tokens
        num_sequences, length = tokens.shape
        blocks_each = -(-length // BLOCK_SIZE)
        num_blocks = 2 * num_sequences * blocks_each
        kv_format = weight_format if weight_format in KV_FORMATS else "bf16"
        self.decoder = Decoder(
            device,
            DecoderConfig(config),
            weights=weight_format,
            kv=kv_format,
            num_blocks=num_blocks,
            blocks=blocks or {},
            target=target,
        )
        for name, values in random_weights(config).items():
            if name not in (blocks or {}):
                self.decoder.load(name, values)
        poison(self.decoder, range(num_blocks))
        self.batch = Batch(max_rows=tokens.size, max_sequences=num_sequences, max_blocks=blocks_each)
        scattered = np.random.default_rng(seed).permutation(num_blocks)
        self.batch.block_tables[:] = scattered[: num_sequences * blocks_each].reshape(num_sequences, blocks_each)

    def forward(self, rows: Seq[Row]) -> NDArray[np.float32]:
        """The logits of one pass over these rows.  # [rows, vocab]"""
        return self.run(rows).logits.numpy()

    def run(self, rows: Seq[Row], num_logits: int | None = None) -> Pass:
        """One pass over these rows, with the logits of all or of the first ones."""
        batch, count = self.batch, len(rows)
        batch.sequences[:count] = [sequence for sequence, _ in rows]
        batch.positions[:count] = [position for _, position in rows]
        batch.token_ids[:count] = [self.tokens[row] for row in rows]
        batch.logit_rows[:count] = np.arange(count)
        batch.num_rows, batch.num_logits = count, count if num_logits is None else num_logits
        batch.num_sequences = len(self.tokens)
        return self.decoder.forward(batch)


def random_tokens(config: ModelConfig, num_sequences: int, length: int, seed: int = 0) -> NDArray[np.int32]:
    return np.random.default_rng(seed).integers(0, config.vocab_size, (num_sequences, length), dtype=np.int32)
