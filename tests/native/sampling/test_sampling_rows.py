"""A row's draw depends on its own logits and history only, to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Device, Sampler, isas
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.sampling_reference import EVERY_STEP, Settings, random_logits, record_of, sample

EVERYTHING = replace(EVERY_STEP, seed=77, temperature=1.1, logit_bias=((4, 1.0), (5, -1.0)), rank=False, entropy=False)


@pytest.mark.parametrize("settings", [EVERYTHING, replace(EVERYTHING, temperature=0.0), Settings(logprobs=True)])
def test_a_row_along_predictions_is_the_row_after_committing(settings):
    prompt, generated, predictions = [1, 4, 4, 8], [3, 4], [4, 7, 7, 2, 9, 3, 3, 50]
    logits = random_logits(9, 130)
    state = settings.state(prompt, generated)
    along = sample(logits, [state], [predictions])
    for row in range(9):
        committed = sample(logits[row : row + 1], [settings.state(prompt, generated + predictions[:row])])
        assert record_of(along, row) == record_of(committed, 0)
    state.commit(predictions)
    assert record_of(sample(logits[8:], [state]), 0) == record_of(along, 8)


def test_sampling_leaves_the_state_alone():
    logits = random_logits(4, 100)
    state = EVERYTHING.state([1, 2], [3])
    first = sample(logits, [state], [[5, 6, 7]])
    assert state.num_generated == 1
    again = sample(logits, [state], [[5, 6, 7]])
    assert [record_of(first, row) for row in range(4)] == [record_of(again, row) for row in range(4)]
    state.commit([5])
    state.commit([])
    state.commit([6, 7])
    assert state.num_generated == 4


def test_min_tokens_runs_along_predictions():
    logits = np.zeros((4, 10), np.float32)
    logits[:, 3] = 20
    state = Settings(temperature=0.0, min_tokens=3, stop_ids=(3,)).state([], [1])
    assert sample(logits, [state], [[1, 1, 1]]).token_ids.tolist() == [0, 0, 3, 3]


def mixed_settings() -> list[Settings]:
    """65 sequences, each asking for something else."""
    rng = np.random.default_rng(8)
    return [
        Settings(
            seed=int(rng.integers(2**63)),
            temperature=float(rng.choice([0.0, 0.7, 1.0, 1.5])),
            top_k=int(rng.choice([0, 1, 20, 500])),
            top_p=float(rng.choice([1.0, 0.9, 0.5])),
            min_p=float(rng.choice([0.0, 0.05])),
            repetition_penalty=float(rng.choice([1.0, 1.2])),
            presence_penalty=float(rng.choice([0.0, 0.5])),
            logit_bias=((7, 1.0),) if rng.integers(2) else (),
            logprobs=bool(rng.integers(2)),
            rank=bool(rng.integers(2)),
            entropy=bool(rng.integers(2)),
            num_candidates=int(rng.choice([0, 5])),
        )
        for _ in range(65)
    ]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_row_has_the_same_bits_alone_and_in_any_batch(threads):
    rng = np.random.default_rng(9)
    settings = mixed_settings()
    predictions = [rng.integers(0, 3001, rng.integers(0, 4)).tolist() for _ in settings]
    prompts = [rng.integers(0, 3001, rng.integers(0, 30)).tolist() for _ in settings]
    logits = random_logits(len(settings) + sum(map(len, predictions)), 3001)
    states = [each.state(prompt) for each, prompt in zip(settings, prompts, strict=True)]
    together = sample(logits, states, predictions, threads=threads)
    row = 0
    for state, predicted in zip(states, predictions, strict=True):
        rows = slice(row, row + 1 + len(predicted))
        alone = sample(logits[rows], [state], [predicted])
        for offset in range(1 + len(predicted)):
            assert record_of(alone, offset) == record_of(together, row + offset)
        row = rows.stop
    assert row == len(logits)


def test_a_sampler_is_used_again_for_other_rows_and_vocabularies():
    device = Device.cpu(isas()[-1], 2)
    sampler = Sampler(device)
    state = replace(EVERYTHING, num_candidates=3).state([1, 2])
    for vocab in [100, 3000, 60, 3000]:
        logits = random_logits(5, vocab, seed=vocab)
        again = sampler.sample(make_logits(device, logits), [state] * 5, [[]] * 5)
        fresh = sample(logits, [state] * 5)
        assert [record_of(again, row) for row in range(5)] == [record_of(fresh, row) for row in range(5)]


def test_no_rows_give_no_samples():
    assert len(sample(np.zeros((0, 10), np.float32), []).token_ids) == 0
