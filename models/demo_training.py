"""The training loop of the demo models: Muon for the matrices of the layers, AdamW for all else.

The target's rate may begin to fall at any time, so the part where it stays and the part where it falls are two stages.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from demo_loss import Teacher, cross_entropy
from demo_model import Llama, generate
from torch import Tensor, nn

ADAM_BETAS = (0.9, 0.95)
MUON_WEIGHT_DECAY = 0.1
LOG_EVERY = 10
SAVE_EVERY = 20
JUDGE_EVERY = 100
LossOf = Callable[[Any, Tensor], Tensor]
Judge = Callable[[], float]


@dataclass(frozen=True)
class Plan:
    """The length, batch shape and learning rate of one stage of the training."""

    steps: int
    rows: int
    length: int
    warmup: int  # steps in which the rate rises
    decay: int  # steps in which it falls to zero, at the end
    muon_rate: float = 0.02
    adam_rate: float = 0.003

    def scaled(self, scale: float) -> "Plan":
        """The same plan with fewer or more steps."""
        steps, decay = max(1, round(self.steps * scale)), round(self.decay * scale)
        return replace(self, steps=steps, decay=decay)

    def rate(self, step: int) -> float:
        """The factor on the learning rates: a short rise, a level, then a straight line down to zero."""
        fall = (self.steps - step) / self.decay if self.decay else 1.0
        return min((step + 1) / self.warmup if self.warmup else 1.0, 1.0, fall)


class Training:
    """A model with its optimizers, the steps that it has made, and what they showed."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizers = _optimizers(model)
        self.step = 0
        self.seconds = 0.0
        self.losses: list[float] = []
        self.judgements: list[tuple[int, float]] = []  # the held-out loss after how many steps

    def save(self, path: Path) -> None:
        """Write all that `load` needs; the file replaces its predecessor at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": (self.step, self.seconds, self.losses, self.judgements),
        }
        torch.save(state, partial)
        os.replace(partial, path)

    def load(self, path: Path) -> None:
        """Go on where `save` was called."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.seconds, self.losses, self.judgements = state["progress"]

    def start_anew(self) -> None:
        """Count steps from zero, with the weights and the optimizers as they are."""
        self.step, self.seconds, self.losses, self.judgements = 0, 0.0, [], []

    def run(self, plan: Plan, batches: Iterator[Tensor], loss_of: LossOf, judge: Judge, state: Path) -> None:
        """Train to the end of the plan, saving the state now and then; batches begin with those of step 0."""
        for _ in range(self.step):
            next(batches)
        started = time.monotonic() - self.seconds
        while self.step < plan.steps:
            self.losses.append(self._advance(plan, loss_of, next(batches)))
            self.step += 1
            self.seconds = time.monotonic() - started
            if self.step % JUDGE_EVERY == 0:
                self.judgements.append((self.step, judge()))
                print(f"step {self.step} held out {self.judgements[-1][1]:.4f}", flush=True)
            if self.step % LOG_EVERY == 0:
                print(f"step {self.step}/{plan.steps} loss {self.recent_loss:.4f} {self.seconds:.0f} s", flush=True)
            if self.step % SAVE_EVERY == 0 or self.step == plan.steps:
                self.save(state)

    @property
    def recent_loss(self) -> float:
        """The mean training loss of the last steps."""
        return statistics.fmean(self.losses[-LOG_EVERY:])

    def _advance(self, plan: Plan, loss_of: LossOf, batch: Tensor) -> float:
        loss = loss_of(self.model, batch)
        loss.backward()
        rate = plan.rate(self.step)
        for optimizer, full in zip(self.optimizers, (plan.muon_rate, plan.adam_rate), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = full * rate
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()


def _optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    return [
        torch.optim.Muon(matrices, momentum=0.95, weight_decay=MUON_WEIGHT_DECAY),
        torch.optim.AdamW(others, betas=ADAM_BETAS, weight_decay=0.0, fused=True),
    ]


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


@torch.no_grad()
def mean_loss(
    model: nn.Module, stream: Tensor, length: int, every: int = 1, loss_of: LossOf = next_token_loss
) -> float:
    """Mean loss over every so-manyth of a stream's windows (the last, incomplete one is left out)."""
    starts = range(0, len(stream) - length, length * every)
    batch = torch.stack([stream[start : start + length + 1] for start in starts])
    total = sum(loss_of(model, part).item() * len(part) for part in batch.split(8))
    return total / len(batch)


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
