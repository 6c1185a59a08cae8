"""Figures of a token beside its log-probabilities: its rank, the entropy of its row, and forced tokens."""

import math
from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Device, isas
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.sampling_reference import (
    Settings,
    draw_one,
    entropy_of,
    log_softmax,
    random_logits,
    rank_of,
    record_of,
    sample,
)

INVALID_LOGITS = 2
INFINITY = float("inf")
EVERYTHING = Settings(temperature=1.2, top_p=0.9, repetition_penalty=1.3, logprobs=True, num_candidates=3)
FORCED = Settings(forced=True, logprobs=True, num_candidates=4, rank=True, entropy=True)


def awkward_logits(rows: int, vocab: int) -> np.ndarray:
    """Rows with ties, with masked tokens, nearly certain ones and equal ones among plain ones."""
    logits = random_logits(rows, vocab, seed=vocab)
    logits[0] = np.round(logits[0])
    logits[1, ::2] = -INFINITY
    logits[1, 0] = 1
    logits[2] *= 300
    logits[3] = 7
    return logits


@pytest.mark.parametrize("vocab", [1, 2, 9, 255, 257, 5003])
@pytest.mark.parametrize("settings", [Settings(), EVERYTHING, Settings(temperature=0.0)])
def test_rank_and_entropy_are_those_of_the_unchanged_logits(vocab, settings):
    logits = awkward_logits(12, vocab)
    states = [replace(settings, seed=row, rank=True, entropy=True).state([0]) for row in range(12)]
    samples = sample(logits, states)
    for row, token_id in enumerate(samples.token_ids):
        assert samples.ranks[row] == rank_of(token_id, logits[row])
        assert samples.entropies[row] == pytest.approx(entropy_of(logits[row]), rel=3e-7, abs=1e-12)


def test_greedy_draws_rank_1_and_the_lowest_id_of_a_tie():
    logits = np.array([[1, 5, 5, 5], [0, 0, 0, 0]], np.float32)
    samples = sample(logits, [Settings(temperature=0.0, rank=True).state()] * 2)
    assert (samples.token_ids.tolist(), samples.ranks.tolist()) == ([1, 0], [1, 1])


def test_the_entropy_of_equal_and_of_certain_tokens():
    logits = np.zeros((3, 1024), np.float32)
    logits[1, 1:] = -INFINITY
    logits[2, 2:] = -1000
    samples = sample(logits, [Settings(entropy=True).state()] * 3)
    assert samples.entropies.tolist() == [np.float32(math.log(1024)), 0.0, np.float32(math.log(2))]


def test_asking_changes_neither_the_draw_nor_the_other_figures():
    logits = random_logits(50, 2000)
    plain = sample(logits, [replace(EVERYTHING, seed=row).state([5, 6]) for row in range(50)])
    asked = replace(EVERYTHING, rank=True, entropy=True)
    told = sample(logits, [replace(asked, seed=row).state([5, 6]) for row in range(50)])
    for name in ("token_ids", "raw_logprobs", "logprobs"):
        assert getattr(plain, name).tobytes() == getattr(told, name).tobytes()
    assert not plain.ranks.any()
    assert np.isnan(plain.entropies).all()


def test_forced_rows_report_figures_of_the_tokens_given():
    logits = awkward_logits(8, 700)
    token_ids = [3, 0, 699, 5, 5, 77, 600, 1]
    samples = sample(logits, [FORCED.state()], [token_ids])
    assert samples.token_ids.tolist() == token_ids
    for row, token_id in enumerate(token_ids):
        logprobs = log_softmax(logits[row])
        assert samples.raw_logprobs[row] == pytest.approx(logprobs[token_id], rel=3e-7, abs=1e-6)
        assert samples.logprobs[row] == samples.raw_logprobs[row]
        assert samples.ranks[row] == rank_of(token_id, logits[row])
        best = [candidate[0] for candidate in samples.candidates(row)]
        assert [rank_of(candidate, logits[row]) for candidate in best] == [1, 2, 3, 4]


def test_forced_rows_have_the_same_bits_alone_and_among_drawn():
    logits = random_logits(9, 300)
    token_ids = [4, 200, 4, 7]
    drawn = replace(EVERYTHING, rank=True, entropy=True).state([1, 2])
    together = sample(logits, [drawn, FORCED.state(), drawn], [[8], token_ids, [9, 9]], threads=3)
    for row, token_id in enumerate(token_ids):
        alone = sample(logits[2 + row : 3 + row], [FORCED.state()], [[token_id]])
        assert record_of(alone, 0) == record_of(together, 2 + row)


def test_a_forced_row_of_nan_logits_has_an_invalid_status():
    logits = random_logits(2, 40)
    logits[0, 7] = np.nan
    samples = sample(logits, [FORCED.state()], [[1, 2]])
    assert samples.status.tolist() == [INVALID_LOGITS, 0]
    assert samples.ranks[0] == 0
    assert np.isnan(samples.raw_logprobs[0])
    assert np.isnan(samples.entropies[0])


def test_a_forced_token_may_have_a_logit_of_minus_infinity():
    logits = np.array([0, -INFINITY, 0], np.float32)
    samples = sample(logits[np.newaxis], [FORCED.state()], [[1]])
    assert (samples.raw_logprobs[0], samples.ranks[0]) == (-INFINITY, 3)


def test_rank_and_entropy_are_not_reported_unasked():
    samples = draw_one(random_logits(1, 50)[0], Settings(logprobs=True))
    assert samples.ranks[0] == 0
    assert np.isnan(samples.entropies[0])


def test_one_row_of_logits_is_copied():
    device = Device.cpu(isas()[-1], 1)
    values = random_logits(3, 20)
    logits = make_logits(device, values)
    assert logits.row(2).tobytes() == values[2].tobytes()
    for row in (-1, 3):
        with pytest.raises(IndexError, match=r"row: must be in \[0, 3\)"):
            logits.row(row)
