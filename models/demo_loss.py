"""Cross-entropy against labels or a teacher, a slice of rows at a time so that no full logit matrix exists."""

from dataclasses import dataclass

import torch
from torch import Tensor

ROWS_AT_A_TIME = 1024


@dataclass(frozen=True)
class Teacher:
    """The teacher's final hidden states for the same rows and its output matrix.

    The distribution to learn is `hardness` parts its first choice and the rest its probabilities: the first
    makes greedy predictions agree, the second carries what the teacher knows about all other tokens.
    """

    hidden: Tensor
    embedding: Tensor
    hardness: float

    def distribution(self, rows: slice) -> Tensor:
        """What the student should predict for these rows, [rows, vocab]."""
        logits = (self.hidden[rows] @ self.embedding.T).float()
        probabilities = logits.softmax(dim=-1).mul_(1 - self.hardness)
        best = logits.argmax(dim=-1, keepdim=True)
        return probabilities.scatter_add_(1, best, torch.full_like(best, self.hardness, dtype=torch.float32))


class ChunkedCrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of `hidden @ embedding.T`; the gradients are computed in the forward pass."""

    @staticmethod
    def forward(ctx, hidden: Tensor, embedding: Tensor, goal: Tensor | Teacher) -> Tensor:  # noqa: ANN001
        """Hidden states [rows, hidden] in bfloat16; the goal is labels [rows] or a teacher."""
        narrow = embedding.to(hidden.dtype)
        hidden_grad = torch.empty_like(hidden)
        embedding_grad = torch.zeros_like(embedding)
        total = torch.zeros(())
        for start in range(0, len(hidden), ROWS_AT_A_TIME):
            rows = slice(start, start + ROWS_AT_A_TIME)
            log_probabilities = (hidden[rows] @ narrow.T).float().log_softmax(dim=-1)
            loss, error = _loss_and_error(log_probabilities, goal, rows)
            total += loss
            error = error.to(hidden.dtype)
            hidden_grad[rows] = error @ narrow
            embedding_grad += error.T @ hidden[rows]
        ctx.save_for_backward(hidden_grad, embedding_grad)
        ctx.rows = len(hidden)
        return total / len(hidden)

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN001
        """Scale the summed gradients that the forward pass left."""
        hidden_grad, embedding_grad = ctx.saved_tensors
        scale = upstream / ctx.rows
        return hidden_grad * scale, embedding_grad * scale, None


def _loss_and_error(log_probabilities: Tensor, goal: Tensor | Teacher, rows: slice) -> tuple[Tensor, Tensor]:
    """The summed loss of some rows and its gradient with respect to their logits."""
    if isinstance(goal, Teacher):
        wanted = goal.distribution(rows)
        loss = -(wanted * log_probabilities).sum()
        return loss, log_probabilities.exp_().sub_(wanted)
    labels = goal[rows].unsqueeze(1)
    loss = -log_probabilities.gather(1, labels).sum()
    error = log_probabilities.exp_()
    return loss, error.scatter_add_(1, labels, torch.full_like(labels, -1, dtype=torch.float32))


def cross_entropy(hidden: Tensor, embedding: Tensor, goal: Tensor | Teacher) -> Tensor:
    """Mean cross-entropy over all rows of hidden states [..., hidden]."""
    return ChunkedCrossEntropy.apply(hidden.flatten(0, -2), embedding, goal)
