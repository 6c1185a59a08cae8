"""Guided rows: logits drawn away from those after a negative prompt, by the formula, in whatever company."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from services.engine.decoder.native import Samples
from tests.native.harness.devices import make_device, on_cuda
from tests.native.harness.sampling_reference import EVERY_STEP, Floats, Settings, random_logits, sample

VOCAB = 777
SETTINGS = {
    "greedy": Settings(temperature=0.0, logprobs=True, num_candidates=3, rank=True, entropy=True),
    "every step": EVERY_STEP,
    "unusual steps": Settings(temperature=1.2, typical_p=0.9, xtc_probability=0.5, logprobs=True, num_candidates=5),
}


def log_softmax(logits: Floats) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    values -= values.max(axis=-1, keepdims=True)
    return values - np.log(np.exp(values).sum(axis=-1, keepdims=True))


def guided_by(scale: float, logits: Floats, negative: Floats) -> Floats:
    """Equation 7 of arXiv 2306.17806, in double precision."""
    own, other = log_softmax(logits), log_softmax(negative)
    return (scale * (own - other) + other).astype(np.float32)


def told(samples: Samples, row: int) -> tuple[object, ...]:
    figures = (samples.raw_logprobs, samples.logprobs, samples.ranks, samples.entropies)
    bits = tuple(figure[row].tobytes() for figure in figures)
    return int(samples.token_ids[row]), int(samples.status[row]), samples.candidates(row), *bits


def all_told(samples: Samples) -> list[tuple[object, ...]]:
    return [told(samples, row) for row in range(len(samples.token_ids))]


@pytest.mark.parametrize("scale", [0.3, 1.5, 7.5, 100.0])
def test_logprobs_are_those_of_the_guided_logits(scale):
    own, negative = random_logits(6, VOCAB), random_logits(6, VOCAB, seed=1)
    settings = Settings(temperature=0.0, logprobs=True, num_candidates=VOCAB, rank=True, entropy=True)
    samples = sample(np.concatenate([own, negative]), [replace(settings, guidance_scale=scale).state()] * 6)
    expected = guided_by(scale, own, negative)
    assert samples.token_ids.tolist() == expected.argmax(axis=1).tolist()
    for row in range(6):
        raw = {token_id: raw for token_id, raw, _ in samples.candidates(row)}
        np.testing.assert_allclose([raw[i] for i in range(VOCAB)], log_softmax(expected)[row], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_guided_rows_are_sampled_as_plain_rows_of_their_logits(name):
    own, negative = random_logits(5, VOCAB), random_logits(5, VOCAB, seed=1)
    settings = replace(SETTINGS[name], guidance_scale=3.0, seed=5)
    guided = all_told(sample(np.concatenate([own, negative]), [settings.state([1, 2])], [[7, 8, 9, 7]]))
    combined = guided_by(3.0, own, negative)
    plain = all_told(sample(combined, [replace(settings, guidance_scale=1.0).state([1, 2])], [[7, 8, 9, 7]]))
    assert [row[:2] for row in guided] == [row[:2] for row in plain]


@pytest.mark.parametrize("threads", [1, 3])
def test_company_changes_no_bit(threads):
    rows = random_logits(12, VOCAB)
    guided = [replace(EVERY_STEP, guidance_scale=scale, seed=9).state([3]) for scale in (2.0, 4.0)]
    plain = replace(EVERY_STEP, seed=9).state([3])
    alone = [
        all_told(sample(rows[[0, 1, 8, 9]], [guided[0]], [[4]])),
        all_told(sample(rows[[5, 10]], [guided[1]])),
        all_told(sample(rows[2:5], [plain], [[5, 6]])),
    ]
    together = all_told(
        sample(rows[[0, 1, 2, 3, 4, 5, 8, 9, 10]], [guided[0], plain, guided[1]], [[4], [5, 6], []], threads=threads)
    )
    assert together == [*alone[0], *alone[2], *alone[1]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("row", [0, 1])
def test_a_number_that_is_not_finite_fails_its_row_alone(bad, row):
    rows = random_logits(4, VOCAB)
    rows[2 * row, 5] = bad
    settings = Settings(guidance_scale=2.0)
    assert sample(rows, [settings.state()] * 2).status.tolist() == [2, 0]


def test_rows_without_negative_ones_are_refused():
    with pytest.raises(ValueError, match="have 3 rows, but the states with their predictions need 4"):
        sample(random_logits(3, VOCAB), [Settings(guidance_scale=2.0).state()] * 2)


@pytest.mark.parametrize("scale", [0.0, -1.0, 100.1, float("nan"), float("inf")])
def test_a_scale_out_of_its_range_is_refused(scale):
    with pytest.raises(ValueError, match=r"guidance_scale: is .*; it must be above 0, at most 100"):
        Settings(guidance_scale=scale).state()


def test_guidance_of_a_forced_row_is_refused():
    with pytest.raises(ValueError, match="guidance_scale: must be 1 where nothing is drawn"):
        Settings(guidance_scale=2.0, forced=True).state()


@on_cuda
@pytest.mark.parametrize("vocab", [11, VOCAB])
def test_every_device_computes_the_same_bits(device_name, vocab):
    """More rows than are drawn at once, some of them beside rows that nothing guides, and some no numbers."""
    asked = [replace(each, guidance_scale=scale) for each in SETTINGS.values() for scale in (1.0, 0.3, 7.5)]
    asked += [Settings(mirostat_mode=2, mirostat_tau=3.0, guidance_scale=2.0)]
    num_guided = sum(each.guidance_scale != 1 for each in asked)
    rows = random_logits(2 * (len(asked) + num_guided), vocab)
    rows[[3, -2], 0], rows[[-5, 8], 0], rows[[6, -9], 0] = np.nan, np.inf, -np.inf
    states, predictions = [each.state([0]) for each in asked], [[0]] * len(asked)
    expected = sample(rows, states, predictions)
    samples = sample(rows, states, predictions, device=make_device(device_name, 1))
    assert all_told(samples) == all_told(expected)
    assert samples.levels.tobytes() == expected.levels.tobytes()
    assert {*expected.status.tolist()} >= {0, 2}
