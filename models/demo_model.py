"""A compact Llama in plain torch, with the parameter names of Hugging Face checkpoints."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

NORM_EPS = 1e-5
ROPE_THETA = 10_000.0
MAX_POSITIONS = 2048
EMBEDDING_STD = 0.02


@dataclass(frozen=True)
class Shape:
    """The sizes of one model."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


class KVCache:
    """Keys and values of every layer for a batch of equally long sequences."""

    def __init__(self, shape: Shape, rows: int, length: int) -> None:
        size = (shape.layers, rows, shape.kv_heads, length, shape.head_dim)
        self.keys = torch.zeros(size)
        self.values = torch.zeros(size)
        self.length = 0

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store this layer's new keys and values; return all of them so far."""
        end = self.length + key.shape[2]
        self.keys[layer, :, :, self.length : end] = key
        self.values[layer, :, :, self.length : end] = value
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]


class Attention(nn.Module):
    """Causal grouped-query attention with rotary positions."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.head_dim, self.layer = shape.head_dim, layer
        kv_width = shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.k_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], cache: KVCache | None) -> Tensor:
        """Mix each position with those before it."""
        query = rotate(self._heads(self.q_proj(x)), rotary)
        key = rotate(self._heads(self.k_proj(x)), rotary)
        value = self._heads(self.v_proj(x))
        if cache is not None:
            key, value = cache.append(self.layer, key, value)
        return self.o_proj(attend(query, key, value).transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class Mlp(nn.Module):
    """The gated feed-forward part of a layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the SwiGLU layer to x.  # x: [..., hidden_size]"""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm decoder layer."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)
        self.self_attn = Attention(shape, layer)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], cache: KVCache | None) -> Tensor:
        """Attention, then feed-forward, each added to the residual stream."""
        x = x + self.self_attn(self.input_layernorm(x), rotary, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, layers and final norm: the part that checkpoints call `model`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, index) for index in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)


class Llama(nn.Module):
    """The whole model; its output matrix is the embedding matrix."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape)
        angles = rotary_angles(shape.head_dim)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        for name, weight in self.named_parameters():
            if "embed_tokens" in name:
                nn.init.normal_(weight, std=EMBEDDING_STD)
            elif name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(weight)  # every layer starts as the identity
            elif weight.ndim == 2:
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5)

    @property
    def embedding(self) -> Tensor:
        """The matrix that turns ids into vectors and vectors into logits."""
        return self.model.embed_tokens.weight

    def forward(self, ids: Tensor, cache: KVCache | None = None) -> Tensor:
        """Final hidden states [rows, positions, hidden] of token ids [rows, positions]."""
        return self.model.norm(self.states(ids, cache)[-1])

    def states(self, ids: Tensor, cache: KVCache | None = None) -> list[Tensor]:
        """The residual stream before the first layer, and after each."""
        start = cache.length if cache is not None else 0
        end = start + ids.shape[1]
        rotary = self.cos[start:end], self.sin[start:end]
        states = [self.model.embed_tokens(ids)]
        for layer in self.model.layers:
            states.append(layer(states[-1], rotary, cache))
        if cache is not None:
            cache.length = end
        return states

    def logits(self, ids: Tensor, cache: KVCache | None = None) -> Tensor:
        """Float32 logits of every position."""
        return (self(ids, cache) @ self.embedding.T).float()


def rotary_angles(head_dim: int) -> Tensor:
    """The rotation angle of every position and pair of dimensions, each twice: [positions, head_dim]."""
    frequencies = ROPE_THETA ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(MAX_POSITIONS).float(), frequencies)
    return torch.cat([angles, angles], dim=-1)


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary position embedding of [rows, heads, positions, head_dim], in the layout of Hugging Face checkpoints."""
    cos, sin = rotary
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Grouped-query attention, either causal over a whole text or of one new position over all before it."""
    kv_heads, length = key.shape[1], query.shape[2]
    if length == 1:  # the queries that share a key head become rows of one product
        grouped = query.squeeze(2).unflatten(1, (kv_heads, -1))
        return functional.scaled_dot_product_attention(grouped, key, value).flatten(1, 2).unsqueeze(2)
    groups = query.shape[1] // kv_heads
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    # The scores stand in memory as a whole: for windows this short that is 2.5 times as fast as the fused kernel.
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    later = torch.full((length, length), -torch.inf, dtype=scores.dtype).triu(1)
    return (scores + later).softmax(dim=-1).to(value.dtype) @ value


@torch.no_grad()
def generate(model: Llama, prompts: Tensor, count: int, noise: list[Tensor] | None = None) -> Tensor:
    """Continue each prompt by `count` tokens; with noise, one matrix [rows, vocab] per step is added to the logits."""
    rows, length = prompts.shape
    cache = KVCache(model.shape, rows, length + count)
    ids, produced = prompts, []
    for step in range(count):
        logits = (model(ids, cache)[:, -1] @ model.embedding.T).float()
        if noise is not None:
            logits += noise[step]
        ids = logits.argmax(dim=-1, keepdim=True)
        produced.append(ids)
    return torch.cat(produced, dim=1)
