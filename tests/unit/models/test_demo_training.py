"""The demo models' training: its documents, and that an interruption changes no bit of it."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from demo_corpus import MAX_HELDOUT_SHARE, RUN_OF_LINES, mixed_batches, originals
from demo_loops import LAST_TOKENS, loops
from demo_model import Llama, Shape
from demo_training import SAVE_EVERY, Plan, Training, next_token_loss
from torch import Tensor

SHAPE = Shape(hidden=32, layers=2, heads=2, kv_heads=1, intermediate=64, vocab=64)
PLAN = Plan(steps=SAVE_EVERY + 9, rows=2, length=16, warmup=4, decay=8)


def batches() -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(3)
    stream = torch.arange(900) * 7 % 64
    return mixed_batches([(stream, 0.7), (stream.flip(0), 0.3)], PLAN.rows, PLAN.length, generator)


def started() -> Training:
    torch.manual_seed(5)
    return Training(Llama(SHAPE))


def weights_of(training: Training) -> Tensor:
    return torch.cat([weight.flatten() for weight in training.model.parameters()])


def test_killed_training_resumes_to_the_same_weights(tmp_path: Path):
    whole = started()
    whole.run(PLAN, batches(), next_token_loss, lambda: 0.0, tmp_path / "whole.pt")

    def until_killed() -> Iterator[Tensor]:
        yield from itertools.islice(batches(), SAVE_EVERY + 4)
        raise KeyboardInterrupt

    state = tmp_path / "state.pt"
    with pytest.raises(KeyboardInterrupt):
        started().run(PLAN, until_killed(), next_token_loss, lambda: 0.0, state)
    resumed = Training(Llama(SHAPE))
    resumed.load(state)
    assert resumed.step == SAVE_EVERY
    resumed.run(PLAN, batches(), next_token_loss, lambda: 0.0, state)
    assert torch.equal(weights_of(resumed), weights_of(whole))
    assert resumed.losses == whole.losses
    assert not torch.equal(weights_of(whole), weights_of(started()))


def test_a_plan_s_rate_rises_stays_and_falls_to_zero():
    rates = [PLAN.rate(step) for step in range(PLAN.steps)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert set(rates[4:-8]) == {1.0}
    assert rates[-8:] == [1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]


def text(name: str, count: int) -> str:
    return "".join(f"    the line {name} number {index}\n" for index in range(count))


def test_repetitions_of_held_out_files_are_not_trained_on():
    most = int(MAX_HELDOUT_SHARE * 100)  # runs of lines
    secret = text("secret", 100 + RUN_OF_LINES - 1)
    few, many = (
        text(name, 300) + "".join(secret.splitlines(keepends=True)[: runs + RUN_OF_LINES - 1])
        for name, runs in (("few", most), ("many", most + 1))
    )
    assert originals({"few": few, "many": many, "indented": secret.replace("    ", "\t")}, {"secret": secret}) == {
        "few": few
    }


def test_of_two_nearly_equal_texts_the_first_is_trained_on():
    documents = {
        "first": text("a", 100),
        "second": text("a", 90) + text("b", 40),
        "third": text("a", 40) + text("c", 90),
    }
    assert [*originals(documents, {})] == ["first", "third"]


def test_a_text_loops_when_its_end_stood_in_it_before():
    rising, period = [*range(120)], [*range(LAST_TOKENS - 5)]
    assert not loops(rising)
    assert not loops([7] * (LAST_TOKENS - 1) + rising)
    assert loops(rising[:60] + period * 3)
    assert loops([7] * (LAST_TOKENS + 1))
