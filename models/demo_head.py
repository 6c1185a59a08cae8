"""An EAGLE-3 head for the demo target (arXiv 2503.01840): one layer that reads the residual stream of its passes.

It is trained as it is used (section 3.2, training-time test): after a step that reads the target come steps that read
what the step before has written, each with keys of its own.
"""

from collections.abc import Iterator

import torch
from demo_loss import Teacher, cross_entropy
from demo_model import NORM_EPS, Llama, Mlp, Shape, rotary_angles, rotate
from torch import Tensor, nn
from torch.nn import functional

BOUNDARIES = (1, 2, 4)  # the target's layers after which it reads
VOCAB = 2048  # the tokens that it can predict
DECAY = 0.8  # of a step's share in the loss, against the step before


class HeadAttention(nn.Module):
    """Attention of rows that hold a token and the hidden vector of the token before."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        width, kv_width = 2 * shape.hidden, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(width, shape.hidden, bias=False)
        self.k_proj = nn.Linear(width, kv_width, bias=False)
        self.v_proj = nn.Linear(width, kv_width, bias=False)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], earlier: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Mix each row with those before it; this step's keys and values are added to those of the `earlier` steps.

        Row i of step s sees rows 0 … i - s of step 0, which have read the target, and row i - s + m of each step m.
        """
        query = rotate(self._heads(self.q_proj(x)), rotary) * self.head_dim**-0.5
        groups = query.shape[1] * self.head_dim // self.k_proj.out_features
        key = rotate(self._heads(self.k_proj(x)), rotary).repeat_interleave(groups, dim=1)
        earlier.append((key, self._heads(self.v_proj(x)).repeat_interleave(groups, dim=1)))
        (read_keys, read_values), *chain = earlier
        length, step = query.shape[2], len(chain)
        unseen = torch.full((length, length), -torch.inf, dtype=query.dtype).triu(1 - step)
        scores = [query @ read_keys.transpose(-1, -2) + unseen]
        scores += [(query * later(keys, step - m)).sum(-1, keepdim=True) for m, (keys, _) in enumerate(chain, 1)]
        weights = torch.cat(scores, -1).softmax(-1).to(read_values.dtype)
        mixed = weights[..., :length] @ read_values
        for m, (_, values) in enumerate(chain, 1):
            mixed = mixed + weights[..., length + m - 1, None] * later(values, step - m)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class HeadLayer(nn.Module):
    """The layer of the head: it reads the token's embedding beside the hidden vector."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)
        self.hidden_norm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)
        self.self_attn = HeadAttention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)
        self.mlp = Mlp(shape)

    def forward(
        self,
        embedded: Tensor,
        hidden: Tensor,
        rotary: tuple[Tensor, Tensor],
        earlier: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """The residual stream after it.  # [rows, positions, hidden]"""
        normed = self.hidden_norm(hidden)
        x = torch.cat([self.input_layernorm(embedded), normed], dim=-1)
        x = normed + self.self_attn(x, rotary, earlier)
        return x + self.mlp(self.post_attention_layernorm(x))


class HeadBody(nn.Module):
    """All but the output matrix; checkpoints name its parts without a prefix."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.fc_norm = nn.ModuleList(nn.RMSNorm(shape.hidden, eps=NORM_EPS) for _ in BOUNDARIES)
        self.fc = nn.Linear(len(BOUNDARIES) * shape.hidden, shape.hidden, bias=False)
        self.layers = nn.ModuleList([HeadLayer(shape)])
        self.norm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)


class Head(nn.Module):
    """The head of one target, which predicts some of its tokens."""

    def __init__(self, target: Llama, token_ids: Tensor) -> None:
        """`token_ids` are the tokens that it can predict, in rising order."""
        super().__init__()
        self.model = HeadBody(target.shape)
        self.lm_head = nn.Linear(target.shape.hidden, len(token_ids), bias=False)
        self.register_buffer("token_ids", token_ids)
        angles = rotary_angles(target.shape.head_dim)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self._start_from(target)

    @torch.no_grad()
    def _start_from(self, target: Llama) -> None:
        """Begin with the target's last boundary and its output matrix."""
        for name, weight in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(weight)
            elif weight.ndim == 2:
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        self.model.fc.weight.mul_(0.1)
        self.model.fc.weight[:, -target.shape.hidden :] += torch.eye(target.shape.hidden)
        self.model.norm.weight.copy_(target.model.norm.weight)
        self.lm_head.weight.copy_(target.embedding[self.token_ids])

    def forward(self, features: list[Tensor], embedded: Tensor, num_steps: int) -> Iterator[Tensor]:
        """Final hidden vectors of each step, for rows with the features of a position and the token after it.

        Row p of step s predicts token p + 2, and has read the target up to position p - s.
        """
        rotary = self.cos[: embedded.shape[1]], self.sin[: embedded.shape[1]]
        normed = [norm(feature) for norm, feature in zip(self.model.fc_norm, features, strict=True)]
        hidden, earlier = self.model.fc(torch.cat(normed, dim=-1)), []
        for _ in range(num_steps):
            written = self.model.norm(self.model.layers[0](embedded, hidden, rotary, earlier))
            yield written
            hidden = later(written, 1)


def later(x: Tensor, count: int) -> Tensor:
    """The rows `count` places later; those that come before the first are zeros.  # [..., positions, width]"""
    return functional.pad(x, (0, 0, count, 0))[..., : x.shape[-2], :]


class HeadLoss:
    """The loss of a head, with what its target says to each of the steps as the teacher."""

    def __init__(self, target: Llama, num_steps: int, hardness: float) -> None:
        self._target, self._num_steps, self._hardness = target, num_steps, hardness

    def __call__(self, head: Head, batch: Tensor) -> Tensor:
        """The mean of all steps' losses, weighted by DECAY, of token ids [rows, length + 1]."""
        with torch.no_grad():
            states = self._target.states(batch)
            said = self._target.model.norm(states[-1])[:, 1:].bfloat16()
            columns = self._target.embedding[head.token_ids].bfloat16()
        total, shares = torch.zeros(()), 0.0
        for step, written in enumerate(_written(self._target, head, states, batch, self._num_steps)):
            teacher = Teacher(said[:, step:].flatten(0, 1), columns, self._hardness)
            total = total + DECAY**step * cross_entropy(written.bfloat16()[:, step:], head.lm_head.weight, teacher)
            shares += DECAY**step
        return total / shares


def _written(target: Llama, head: Head, states: list[Tensor], ids: Tensor, num_steps: int) -> Iterator[Tensor]:
    """What the head writes to a text with these states of the target, with the token after each position."""
    features = [states[boundary][:, :-1] for boundary in BOUNDARIES]
    return head(features, target.model.embed_tokens(ids[:, 1:]).detach(), num_steps)


@torch.no_grad()
def agreements(target: Llama, head: Head, ids: Tensor, noise: Tensor | None, num_steps: int) -> Tensor:
    """Whether the predictions of a run that begins with each token but the first two are the text's tokens.

    `noise` is added to the logits of the last tokens, [rows, tokens, vocab].  # -> [rows, positions - 2, steps]
    """
    right = []
    for step, written in enumerate(_written(target, head, target.states(ids), ids, num_steps)):
        logits = head.lm_head(written).float()[:, :-1]
        if noise is not None:
            logits[:, -noise.shape[1] :] += noise[..., head.token_ids]
        agreed = head.token_ids[logits.argmax(dim=-1)] == ids[:, 2:]
        right.append(functional.pad(agreed[:, step:], (0, step)))  # of the run that began `step` rows before
    return torch.stack(right, dim=-1)
