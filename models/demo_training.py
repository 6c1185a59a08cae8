"""The training loop of both demo models: Muon for the matrices of the layers, AdamW for all else."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from demo_loss import Teacher, cross_entropy
from demo_model import Llama, generate
from torch import Tensor

ADAM_BETAS = (0.9, 0.95)
MUON_WEIGHT_DECAY = 0.05
LOG_EVERY = 20
SAVE_EVERY = 200
LossOf = Callable[[Llama, Tensor], Tensor]


@dataclass(frozen=True)
class Plan:
    """How long one stage trains, on batches of which form, and how fast."""

    steps: int
    rows: int
    length: int
    muon_rate: float
    adam_rate: float
    warmup: int
    steps_to_zero: int  # where the falling rate would meet zero; a stage may leave the rest of the fall to the next

    @property
    def tokens(self) -> int:
        """How many tokens the stage trains on."""
        return self.steps * self.rows * self.length

    def scaled(self, scale: float) -> "Plan":
        """The same plan with fewer or more steps, for trying the script out."""
        return replace(
            self, steps=max(1, round(self.steps * scale)), steps_to_zero=max(1, round(self.steps_to_zero * scale))
        )

    def rate(self, step: int) -> float:
        """The factor on the learning rates: a short rise, then a straight line down to zero."""
        return min((step + 1) / self.warmup, 1.0) * (self.steps_to_zero - step) / self.steps_to_zero


def next_token_loss(model: Llama, batch: Tensor) -> Tensor:
    """Mean cross-entropy of each token of [rows, length + 1] given those before it."""
    return cross_entropy(_hidden(model, batch[:, :-1]), model.embedding, batch[:, 1:].flatten())


def distillation_loss(target: Llama, hardness: float) -> LossOf:
    """A loss that asks a draft to predict what the target would say, not what the text says."""

    def loss_of(draft: Llama, batch: Tensor) -> Tensor:
        ids = batch[:, :-1]
        with torch.no_grad():
            hidden = _hidden(target, ids).flatten(0, 1)
        teacher = Teacher(hidden, target.embedding.detach().to(hidden.dtype), hardness)
        return cross_entropy(_hidden(draft, ids), draft.embedding, teacher)

    return loss_of


def _hidden(model: Llama, ids: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return model(ids).bfloat16()


def fit(model: Llama, plan: Plan, batches: Iterator[Tensor], loss_of: LossOf, save: Callable[[], None]) -> float:
    """Train by the plan and save now and then and at the end; the mean loss of the last logged steps."""
    optimizers = _optimizers(model, plan)
    losses: list[float] = []
    started = time.monotonic()
    for step in range(1, plan.steps + 1):
        losses.append(_step(model, optimizers, plan.rate(step - 1), loss_of, next(batches)))
        if step % LOG_EVERY == 0:
            print(f"step {step}/{plan.steps} loss {_recent(losses):.4f} {time.monotonic() - started:.0f} s", flush=True)
        if step % SAVE_EVERY == 0 or step == plan.steps:
            save()
    return _recent(losses)


def _recent(losses: list[float]) -> float:
    return statistics.fmean(losses[-LOG_EVERY:])


def _optimizers(model: Llama, plan: Plan) -> list[torch.optim.Optimizer]:
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    return [
        torch.optim.Muon(matrices, lr=plan.muon_rate, momentum=0.95, weight_decay=MUON_WEIGHT_DECAY),
        torch.optim.AdamW(others, lr=plan.adam_rate, betas=ADAM_BETAS, weight_decay=0.0, fused=True),
    ]


def _step(model: Llama, optimizers: list[torch.optim.Optimizer], rate: float, loss_of: LossOf, batch: Tensor) -> float:
    loss = loss_of(model, batch)
    loss.backward()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group.setdefault("full_rate", group["lr"]) * rate
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


@torch.no_grad()
def mean_loss(model: Llama, stream: Tensor, length: int, rows: int = 8) -> float:
    """Mean cross-entropy over a stream cut into windows (the last, incomplete one is left out)."""
    count = (len(stream) - 1) // length
    batch = torch.stack([stream[i * length : (i + 1) * length + 1] for i in range(count)])
    total = sum(next_token_loss(model, part).item() * len(part) for part in batch.split(rows))
    return total / count


def start_from(target: Llama, draft: Llama) -> None:
    """Begin the draft's embedding with the directions in which the target's varies most."""
    with torch.no_grad():
        left, scale, _ = torch.linalg.svd(target.embedding, full_matrices=False)
        width = draft.shape.hidden
        draft.embedding.copy_(left[:, :width] * scale[:width])


def gumbel_noise(rows: int, count: int, vocab: int, temperature: float, generator: torch.Generator) -> list[Tensor]:
    """One matrix per step which, added to logits, turns the greedy choice into a draw at this temperature."""
    uniform = torch.rand(count, rows, vocab, generator=generator, dtype=torch.float32).clamp_(min=1e-20)
    return list(uniform.log_().neg_().log_().neg_().mul_(temperature))


def continuations(target: Llama, prompts: Tensor, count: int, temperature: float, generator: torch.Generator) -> Tensor:
    """Prompts and the target's continuations of them as one stream of token ids."""
    texts = []
    for part in prompts.split(64):
        noise = None
        if temperature > 0:
            noise = gumbel_noise(len(part), count, target.shape.vocab, temperature, generator)
        texts.append(torch.cat([part, generate(target, part, count, noise)], dim=1))
    return torch.cat(texts).flatten()
