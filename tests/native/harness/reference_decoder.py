"""The decoder in plain torch: the readable specification, and the oracle of the tests; never a fallback."""

import math
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from services.engine.checkpoint.model_config import (
    Activation,
    Attention,
    Experts,
    ExpertScores,
    GatedDelta,
    LatentAttention,
    LayerMlp,
    ModelConfig,
    Norm,
    QkNorm,
    Rope,
    ShortConvolution,
)

_SWIGLU_LIMIT = 7.0  # GPT-OSS clamps to this


@dataclass
class KvCache:
    """For each layer the rotated keys and values of all positions so far, or a convolution's inputs and the state."""

    keys: dict[int, Tensor] = field(default_factory=dict)  # [kv_heads, positions, head_dim]
    values: dict[int, Tensor] = field(default_factory=dict)
    inputs: dict[int, Tensor] = field(default_factory=dict)  # [positions, hidden]
    states: dict[int, Tensor] = field(default_factory=dict)  # [value_heads, key_dim, value_dim]
    length: int = 0  # positions held

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add new positions to one layer and return all of its keys and values."""
        if layer in self.keys:
            keys = torch.cat([self.keys[layer], keys], dim=1)
            values = torch.cat([self.values[layer], values], dim=1)
        self.keys[layer], self.values[layer] = keys, values
        return keys, values

    def append_inputs(self, layer: int, inputs: Tensor) -> Tensor:
        """Add new positions to one layer with a convolution and return all of its inputs."""
        self.inputs[layer] = torch.cat([self.inputs[layer], inputs]) if layer in self.inputs else inputs
        return self.inputs[layer]


class ReferenceDecoder:
    """One sequence through the transformer, in float32 or bfloat16.

    Matrices, activations, keys and values have the chosen type; norms, rotary angles, softmax and soft caps are
    computed in float32.
    """

    def __init__(
        self, config: ModelConfig, weights: Iterable[tuple[str, NDArray[Any]]], dtype: torch.dtype = torch.float32
    ) -> None:
        """`weights` is the result of `Checkpoint.weights`."""
        self.config = config
        self.dtype = dtype
        self.streams: list[Tensor] = []  # the residual before and after each layer of the last tokens, [tokens, hidden]
        self._weights = {name: _to_torch(values, _weight_dtype(name, dtype)) for name, values in weights}

    @torch.inference_mode()
    def logits(self, token_ids: Seq[int], cache: KvCache | None = None) -> Tensor:
        """Run tokens that follow those in the cache, and add them to it.  # [tokens, vocab] float32"""
        cache = KvCache() if cache is None else cache
        positions = torch.arange(cache.length, cache.length + len(token_ids))  # [tokens]
        hidden = self._weights["embedding"][torch.tensor(token_ids)] * self.config.embedding_scale
        self.streams = [hidden]
        inputs = self._layer_inputs(token_ids, hidden) if self.config.layer_input_size else None
        for layer in range(self.config.num_layers):
            hidden = self._layer(layer, hidden, positions, cache)
            if inputs is not None:
                hidden = self._add_input(layer, inputs[:, layer], hidden)
            if self.config.layer_scale:
                hidden = hidden * self._weights[f"layers.{layer}.scale"]
            self.streams.append(hidden)
        cache.length += len(token_ids)
        hidden = self._norm("final_norm", hidden)
        head = self._weights["embedding" if self.config.tied_embeddings else "lm_head"]
        return _soft_cap((hidden @ head.T).float() * self.config.logit_scale, self.config.logit_softcap)

    def _layer(
        self, layer: int, hidden: Tensor, positions: Tensor, cache: KvCache, read: Tensor | None = None
    ) -> Tensor:
        """Return the residual after a layer, whose attention reads the normed one before it or `read`."""
        config, prefix = self.config, f"layers.{layer}."
        if read is None:
            read = self._norm(prefix + "attention_norm", hidden) if config.pre_norm else hidden
        match config.layers[layer]:
            case Attention() as own:
                mixed = self._attention(layer, own, read, positions, cache)
            case ShortConvolution(taps=num_taps):
                mixed = self._convolution(layer, num_taps, read, cache)
            case GatedDelta() as own:
                mixed = self._delta(layer, own, read, cache)
            case LatentAttention() as own:
                mixed = self._latent_attention(layer, own, read, positions, cache)
        hidden = hidden + (self._norm(prefix + "post_attention_norm", mixed) if config.post_norm else mixed)
        if not config.parallel_mlp:
            read = self._norm(prefix + "mlp_norm", hidden) if config.pre_norm else hidden
        mixed = self._mlps(prefix, config.layers[layer], read, hidden)
        return hidden + (self._norm(prefix + "post_mlp_norm", mixed) if config.post_norm else mixed)

    def _attention(self, layer: int, own: Attention, hidden: Tensor, positions: Tensor, cache: KvCache) -> Tensor:
        config, prefix = self.config, f"layers.{layer}."
        rope, head_dim = config.ropes[own.rope], config.head_dim_of(own)
        query = rotate(self._heads(prefix + "q", hidden, head_dim), positions, rope)  # [heads, tokens, head_dim]
        if own.kv_layer is None:
            key = rotate(self._heads(prefix + "k", hidden, head_dim), positions, rope)  # [kv_heads, tokens, head_dim]
            keys, values = cache.append(layer, key, self._values(prefix, own, hidden))
        else:
            keys, values = cache.keys[own.kv_layer], cache.values[own.kv_layer]
        group = config.num_heads // config.num_kv_heads_of(own)
        keys, values = keys.repeat_interleave(group, dim=0), values.repeat_interleave(group, dim=0)
        scores = (query @ keys.transpose(1, 2)).float() * config.query_scale  # [heads, tokens, positions]
        scores = _soft_cap(scores, config.attention_softcap)
        seen = positions[-1:].expand_as(positions) if own.looks_ahead else positions
        distance = seen[:, None] - torch.arange(keys.shape[1])  # [tokens, positions]
        visible = (distance >= 0) & (distance < (own.window or math.inf))
        scores = scores.masked_fill(~visible, -math.inf)
        if config.attention_sinks:  # a position with no value (arXiv 2309.17453)
            sinks = self._weights[prefix + "sinks"].float()[:, None, None].expand(-1, len(positions), 1)
            scores = torch.cat([scores, sinks], dim=-1)
        weights = scores.softmax(dim=-1)[..., : keys.shape[1]].to(self.dtype)
        mixed = (weights @ values).transpose(0, 1).flatten(1)  # [tokens, heads * head_dim]
        if config.attention_gate:
            mixed = mixed * torch.sigmoid(self._linear(prefix + "q_gate", hidden, has_bias=False))
        return self._linear(prefix + "o", mixed, has_bias=config.output_bias)

    def _latent_attention(
        self, layer: int, own: LatentAttention, hidden: Tensor, positions: Tensor, cache: KvCache
    ) -> Tensor:
        """Return attention to keys and values that each head makes of latent vectors (arXiv 2405.04434, section 2.1).

        # [tokens, hidden]
        """
        config, prefix, weights, heads = self.config, f"layers.{layer}.", self._weights, range(self.config.num_heads)
        source = hidden
        if own.query_rank:
            source = self._linear(prefix + "q_down", hidden, has_bias=False)
            source = self._norm(prefix + "q_down_norm", source, own.norm_eps)
        query = self._linear(prefix + "q", source, has_bias=False).view(len(hidden), -1, own.query_dim).transpose(0, 1)
        latent, turning = self._linear(prefix + "kv_down", hidden, has_bias=False).split([own.rank, own.turning], -1)
        latents, turned = cache.append(
            layer,
            self._norm(prefix + "kv_norm", latent, own.norm_eps)[None],
            rotate(turning[None], positions, config.ropes[0]),
        )  # [1, positions, rank], [1, positions, turning]
        keys = torch.stack([latents[0] @ weights[f"{prefix}k_up.{head}"] for head in heads])
        values = torch.stack([latents[0] @ weights[f"{prefix}v_up.{head}"].T for head in heads])
        still, turns = query.split([own.key_dim, own.turning], -1)
        scores = still @ keys.transpose(1, 2) + rotate(turns, positions, config.ropes[0]) @ turned.transpose(1, 2)
        ahead = positions[:, None] < torch.arange(keys.shape[1])  # [tokens, positions]
        scores = (scores.float() * config.query_scale).masked_fill(ahead, -math.inf)
        mixed = (scores.softmax(dim=-1).to(self.dtype) @ values).transpose(0, 1).flatten(1)
        return self._linear(prefix + "o", mixed, has_bias=False)

    def _convolution(self, layer: int, num_taps: int, hidden: Tensor, cache: KvCache) -> Tensor:
        """Return the short convolution over each position's gated input and those before it.  # [tokens, hidden]"""
        config, prefix, count = self.config, f"layers.{layer}.", len(hidden)
        before, gate, value = self._linear(prefix + "conv_in", hidden, has_bias=config.conv_bias).chunk(3, dim=-1)
        taps = torch.stack([self._weights[f"{prefix}conv.{tap}"] for tap in range(num_taps)])
        mixed = _convolved(cache.append_inputs(layer, before * value), taps)[-count:]
        if config.conv_bias:
            mixed = mixed + self._weights[prefix + "conv_bias"]
        return self._linear(prefix + "conv_out", gate * mixed, has_bias=config.conv_bias)

    def _delta(self, layer: int, own: GatedDelta, hidden: Tensor, cache: KvCache) -> Tensor:
        """Return the gated delta rule over each position and those before it (arXiv 2412.06464).  # [tokens, hidden]"""
        prefix, weights = f"layers.{layer}.", self._weights
        channels, opening, rate, step = (
            self._linear(f"{prefix}delta_{name}", hidden, has_bias=False).float() for name in ("qkv", "z", "b", "a")
        )
        taps = torch.stack([weights[f"{prefix}delta_conv.{tap}"] for tap in range(own.taps)]).float()
        inputs = cache.append_inputs(layer, channels)
        convolved = functional.silu(_convolved(inputs, taps)[-len(hidden) :])
        sizes = [own.key_heads * own.key_dim] * 2 + [own.value_heads * own.value_dim]
        query, key, value = (
            each.unflatten(-1, (heads, -1))
            for each, heads in zip(
                convolved.split(sizes, -1), (own.key_heads, own.key_heads, own.value_heads), strict=True
            )
        )
        query, key = (
            (each * torch.rsqrt(each.square().sum(-1, keepdim=True) + 1e-6)).repeat_interleave(
                own.value_heads // own.key_heads, dim=1
            )
            for each in (query, key)
        )
        decay = -weights[prefix + "delta_decay"].float().exp()
        decay = (decay * functional.softplus(step + weights[prefix + "delta_decay_bias"].float())).exp()
        state = cache.states.get(layer, torch.zeros(own.value_heads, own.key_dim, own.value_dim))
        outs = []
        for token in range(len(hidden)):
            state = decay[token, :, None, None] * state
            missing = value[token] - torch.einsum("hij,hi->hj", state, key[token])
            update = torch.sigmoid(rate[token])[:, None] * missing
            state = state + torch.einsum("hi,hj->hij", key[token], update)
            outs.append(torch.einsum("hij,hi->hj", state, query[token] * own.key_dim**-0.5))
        cache.states[layer] = state
        normed = self._norm(prefix + "delta_scale", torch.stack(outs)).float()  # [tokens, value_heads, value_dim]
        mixed = (normed.flatten(1) * functional.silu(opening)).to(self.dtype)
        return self._linear(prefix + "delta_out", mixed, has_bias=False)

    def _values(self, prefix: str, own: Attention, hidden: Tensor) -> Tensor:
        """Return the values, or the keys before their norm and rotation if they are values, too.

        # [heads, tokens, head_dim]
        """
        config, name = self.config, prefix + ("k" if own.values_are_keys else "v")
        values = self._linear(name, hidden, has_bias=config.attention_bias)
        values = values.view(len(hidden), -1, config.head_dim_of(own)).transpose(0, 1)
        if config.value_norm:
            wide = values.float()
            values = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + config.norm_eps)).to(self.dtype)
        return values

    def _layer_inputs(self, token_ids: Seq[int], embedded: Tensor) -> Tensor:
        """Return each layer's input: the token's row of a table, and a part of its projected vector.

        # [tokens, layers, size]
        """
        config, weights = self.config, self._weights
        rows = weights["layer_embedding"][torch.tensor(token_ids)] * config.layer_input_size**0.5
        projected = embedded @ weights["layer_projection"].T * config.hidden_size**-0.5
        rows, projected = (each.unflatten(-1, (config.num_layers, -1)) for each in (rows, projected))
        return (self._norm("layer_input_norm", projected) + rows) * 2**-0.5

    def _add_input(self, layer: int, own: Tensor, hidden: Tensor) -> Tensor:
        prefix = f"layers.{layer}."
        gate = self._linear(prefix + "input_gate", hidden, has_bias=False)
        mixed = _activated(self.config.activation, own, gate)
        mixed = self._linear(prefix + "input_projection", mixed, has_bias=False)
        return hidden + self._norm(prefix + "post_input_norm", mixed)

    def _heads(self, name: str, hidden: Tensor, head_dim: int) -> Tensor:
        """Project to query or key and split into heads.  # [heads, tokens, head_dim]"""
        config = self.config
        out = self._linear(name, hidden, has_bias=config.attention_bias)
        if config.qk_norm is QkNorm.FULL:
            out = self._norm(name + "_norm", out)
        out = out.view(len(hidden), -1, head_dim)
        if config.qk_norm is QkNorm.HEAD:
            out = self._norm(name + "_norm", out)
        if config.qk_norm is QkNorm.EACH:
            heads = [self._norm(f"{name}_norm.{index}", head) for index, head in enumerate(out.unbind(1))]
            out = torch.stack(heads, dim=1)
        return out.transpose(0, 1)

    def _mlp(self, prefix: str, hidden: Tensor, *, has_bias: bool) -> Tensor:
        up = self._linear(prefix + "up", hidden, has_bias=has_bias)
        gate = self._linear(prefix + "gate", hidden, has_bias=has_bias) if self.config.gated_mlp else None
        return self._linear(prefix + "down", _activated(self.config.activation, up, gate), has_bias=has_bias)

    def _mlps(self, prefix: str, layer: LayerMlp, hidden: Tensor, residual: Tensor) -> Tensor:
        """Return what the MLP for all tokens, the experts or both together give, by the residual or its norm `hidden`.

        # [tokens, hidden]
        """
        config, experts, out = self.config, self.config.experts_of(layer), torch.zeros_like(hidden)
        if config.mlp_size(layer):
            out = self._mlp(prefix, hidden, has_bias=config.mlp_bias)
        if experts is None:
            return out
        if config.mlp_size(layer) and experts.has_shared_gate:
            out = torch.sigmoid(hidden @ self._weights[prefix + "shared_gate"].T) * out
        if not experts.have_norms:
            return self._experts(prefix, experts, hidden, hidden) + out
        routed = self._norm(prefix + "router_norm", residual) * config.hidden_size**-0.5
        mixed = self._experts(prefix, experts, self._norm(prefix + "expert_norm", residual), routed)
        return self._norm(prefix + "post_dense_norm", out) + self._norm(prefix + "post_expert_norm", mixed)

    def _experts(self, prefix: str, experts: Experts, hidden: Tensor, routed: Tensor) -> Tensor:
        """Return the sum of the experts that the router chooses by `routed` (arXiv 1701.06538, section 2).

        # [tokens, hidden]
        """
        out = torch.zeros_like(hidden)
        logits = self._linear(prefix + "router", routed, has_bias=experts.have_biases).float()
        bias = self._weights[prefix + "choice_bias"].float() if experts.has_choice_bias else None
        chosen, scores = choose_experts(experts, logits, bias)
        if experts.have_scales:
            scores = scores * self._weights[prefix + "expert_scales"].float()[chosen]
        weights = torch.zeros_like(logits).scatter(1, chosen, scores)  # [tokens, experts]
        for expert in sorted({*chosen.flatten().tolist()}):
            tokens = (chosen == expert).any(-1).nonzero()[:, 0]
            mixed = self._mlp(f"{prefix}experts.{expert}.", hidden[tokens], has_bias=experts.have_biases)
            out[tokens] += weights[tokens, expert, None].to(self.dtype) * mixed
        return out

    def _linear(self, name: str, hidden: Tensor, *, has_bias: bool) -> Tensor:
        out = hidden @ self._weights[name].T
        return out + self._weights[name + "_bias"] if has_bias else out

    def _norm(self, name: str, hidden: Tensor, eps: float | None = None) -> Tensor:
        """Root mean square norm (arXiv 1910.07467), or layer norm (arXiv 1607.06450)."""
        wide = hidden.float()
        if self.config.norm is Norm.LAYER:
            wide = wide - wide.mean(-1, keepdim=True)
        eps = self.config.norm_eps if eps is None else eps
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * self._weights[name]
        bias = self._weights.get(f"{name}_bias") if self.config.norm_bias else None
        return (wide if bias is None else wide + bias).to(self.dtype)


def choose_experts(experts: Experts, logits: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the experts of each token and their weights, the lowest id first among equals.  # [tokens, per_token]

    `bias` is added only where experts and groups of them are compared (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
    Where scores are a softmax, groups are compared by their best expert (DeepSeek-V2, arXiv 2405.04434, section 2.2.2).
    """
    is_softmax = experts.scores is ExpertScores.SOFTMAX
    choices = (logits if is_softmax else torch.sigmoid(logits)) + (0 if bias is None else bias)
    if experts.groups > 1:
        groups = choices.view(len(choices), experts.groups, -1)
        values = groups.topk(1 if is_softmax else 2, dim=-1).values.sum(-1)  # [tokens, groups]
        best = values.sort(dim=-1, descending=True, stable=True).indices[:, : experts.groups_per_token]
        others = torch.ones_like(values, dtype=torch.bool).scatter(1, best, value=False)
        choices = groups.masked_fill(others[..., None], -math.inf).flatten(1)
    ranked = choices.sort(dim=-1, descending=True, stable=True)
    chosen = ranked.indices[:, : experts.per_token]
    scores = logits.gather(1, chosen)
    if is_softmax:
        scores = (scores - (scores if experts.are_normalised else logits).logsumexp(-1, keepdim=True)).exp()
    else:
        scores = torch.sigmoid(scores)
        scores = scores / (scores.sum(-1, keepdim=True) + experts.sum_offset) if experts.are_normalised else scores
    return chosen, experts.weight_scale * scores


def rotate(heads: Tensor, positions: Tensor, rope: Rope) -> Tensor:
    """Turn the pairs (i, i + half) of each head's leading dimensions by position times frequency (arXiv 2104.09864)."""
    angles = positions[:, None].float() * torch.tensor(rope.frequencies)  # [tokens, half]
    cos, sin = angles.cos() * rope.scale, angles.sin() * rope.scale
    half = len(rope.frequencies)
    first, second, rest = heads[..., :half].float(), heads[..., half : 2 * half].float(), heads[..., 2 * half :]
    rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return torch.cat([rotated.to(heads.dtype), rest], dim=-1)


def _activated(activation: Activation, up: Tensor, gate: Tensor | None) -> Tensor:
    """Return the activation of the gate times `up`, or without a gate that of `up` itself."""
    value = up if gate is None else gate
    match activation:
        case Activation.CLAMPED_SWIGLU:
            value = value.clamp(max=_SWIGLU_LIMIT)
            value, up = value * torch.sigmoid(1.702 * value), 1.0 + up.clamp(-_SWIGLU_LIMIT, _SWIGLU_LIMIT)
        case Activation.SILU:
            value = functional.silu(value)
        case _:
            value = functional.gelu(value, approximate="none" if activation is Activation.GELU else "tanh")
    return value if gate is None else value * up


def _soft_cap(values: Tensor, cap: float) -> Tensor:
    return cap * torch.tanh(values / cap) if cap else values


def _weight_dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if "norm" in name else dtype


def _to_torch(values: NDArray[Any], dtype: torch.dtype) -> Tensor:
    copy = values.copy()  # torch requires writable memory
    if copy.dtype == np.uint16:
        return torch.from_numpy(copy.view(np.int16)).view(torch.bfloat16).to(dtype)
    return torch.from_numpy(copy).to(dtype)


def _convolved(inputs: Tensor, taps: Tensor) -> Tensor:
    """Return the sum of each position's input and those before it, times the taps.  # [positions, width]"""
    windows = functional.pad(inputs, (0, 0, len(taps) - 1, 0)).unfold(0, len(taps), 1)  # [positions, width, taps]
    return (windows * taps.T).sum(-1)
