"""The demo head is trained as it is served: its steps are those of the oracle of native drafters."""

from pathlib import Path

import torch
from demo_checkpoint import load_checkpoint as load_target
from demo_checkpoint import load_head, save_head
from demo_head import BOUNDARIES, Head, agreements
from demo_model import Llama
from torch import Tensor

from services.engine.checkpoint.attached.attached_drafter import load_drafter
from services.engine.checkpoint.checkpoint import load_checkpoint
from tests.e2e.harness.models import DEMO_TARGET
from tests.native.harness.reference_decoder import KvCache
from tests.native.harness.reference_drafter import ReferenceDrafter

LENGTH, STEPS = 40, 4
KNOWN = torch.arange(5, 8192, 7)


def random_head(folder: Path) -> Head:
    """Written to a folder, and read again, as its weights are rounded there."""
    torch.manual_seed(3)
    target = load_target(DEMO_TARGET)
    head = Head(target, KNOWN)
    for weight in head.parameters():
        weight.data += 0.3 * weight.abs().mean() * torch.randn(weight.shape) + 0.02 * torch.randn(weight.shape)
    save_head(head, target.shape, folder, LENGTH)
    return load_head(target, folder)


def features_of(target: Llama, ids: Tensor) -> list[Tensor]:
    states = target.states(ids)
    return [states[boundary][:, :-1] for boundary in BOUNDARIES]


def steps(head: Head, target: Llama, ids: Tensor) -> list[Tensor]:
    """What the head writes along a text, in each step."""
    return [*head(features_of(target, ids), target.model.embed_tokens(ids[:, 1:]), STEPS)]


@torch.no_grad()
def test_its_steps_are_those_of_the_served_head(tmp_path: Path) -> None:
    head, target = random_head(tmp_path), load_target(DEMO_TARGET)
    drafter = load_drafter(tmp_path, load_checkpoint(DEMO_TARGET).config)
    assert drafter.boundaries == BOUNDARIES
    assert [*drafter.head_tokens] == KNOWN.tolist()
    weights = {"embedding": target.embedding.numpy(), **dict(drafter.checkpoint.weights())}
    reference = ReferenceDrafter(drafter.checkpoint.config, weights.items())
    ids = torch.randint(8192, (1, LENGTH + 1))
    features, written = features_of(target, ids), steps(head, target, ids)
    following = ids[0, 1:].tolist()
    for last in (7, 20, LENGTH - STEPS - 1):
        cache = KvCache()
        hidden = reference.hidden(torch.cat(features, dim=-1)[0, : last + 1])
        logits, carried = reference.read(hidden, following[: last + 1], cache)
        for step in range(STEPS):
            found = head.lm_head(written[step][0, last + step])
            assert torch.allclose(found, logits[-1], atol=1e-3 * logits.abs().max()), (last, step)
            place = last + step + 1
            logits, carried = reference.read(carried[-1:], following[place : place + 1], cache)


@torch.no_grad()
def test_agreement_is_that_of_runs_along_the_text(tmp_path: Path) -> None:
    head, target = random_head(tmp_path), load_target(DEMO_TARGET)
    ids, noise = torch.randint(8192, (1, LENGTH)), torch.zeros(1, LENGTH - 10, 8192)
    for step, place in ((0, 12), (1, 20), (3, 30)):  # what the run that begins with a token says `step` later
        said = head.lm_head(steps(head, target, ids)[step][0, place - 2 + step]).argmax()
        for token, is_right in ((KNOWN[said], True), (KNOWN[said - 1], False)):
            ids[0, place + step] = token
            runs = agreements(target, head, ids, noise, STEPS)
            assert runs.shape == (1, LENGTH - 2, STEPS)
            assert runs[0, place - 2, step] == is_right
