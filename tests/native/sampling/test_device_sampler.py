"""Every device draws what the CPU draws from the same logits, to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Device, Sampler, Samples
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.sampling_reference import EVERY_STEP, Settings, random_logits, record_of
from tests.native.harness.sampling_reference import sample as sample_on_cpu

OTHERS = [name for name in DEVICES if name.startswith("cuda")]
INFINITY = float("inf")

SETTINGS = {
    "greedy": Settings(temperature=0.0, logprobs=True),
    "plain": Settings(logprobs=True),
    "cool": Settings(temperature=0.3),
    "hot": Settings(temperature=40.0, logprobs=True),
    "top-k": Settings(top_k=7, logprobs=True),
    "top-k of all": Settings(top_k=1 << 40, logprobs=True),
    "top-k of one": Settings(top_k=1),
    "top-p": Settings(top_p=0.9, logprobs=True, num_candidates=20),
    "top-p of nearly all": Settings(temperature=3.0, top_p=0.9999, logprobs=True),
    "top-p of one": Settings(top_p=1e-300, logprobs=True),
    "top-p of all": Settings(temperature=0.3, top_p=1 - 2.0**-53, logprobs=True),
    "top-k and top-p": Settings(top_k=40, top_p=0.8, logprobs=True, num_candidates=60),
    "min-p": Settings(temperature=2.0, min_p=0.05, logprobs=True, num_candidates=5),
    "candidates": Settings(temperature=0.0, num_candidates=1 << 40),
    "penalties": Settings(repetition_penalty=1.4, frequency_penalty=0.3, presence_penalty=-0.5, logprobs=True),
    "bias": Settings(logit_bias=((0, 9.0), (3, -2.0), (5, -INFINITY)), logprobs=True, num_candidates=3),
    "rank": Settings(temperature=1.5, rank=True),
    "entropy": Settings(temperature=0.7, entropy=True),
    "forced": Settings(forced=True, logprobs=True, num_candidates=5, rank=True, entropy=True),
    "everything": EVERY_STEP,
}


@pytest.fixture(params=OTHERS)
def device_name(request) -> str:
    return request.param


@pytest.fixture
def device(device_name) -> Device:
    return make_device(device_name, threads=1)


def assert_same_samples(device: Device, logits: np.ndarray, states: list, predictions: list[list[int]]) -> Samples:
    expected = sample_on_cpu(logits, states, predictions)
    samples = Sampler(device).sample(make_logits(device, logits), states, predictions)
    for row in range(len(logits)):
        assert record_of(samples, row) == record_of(expected, row), f"row {row}"
    return samples


@pytest.mark.parametrize("vocab", [11, 256, 1003, 5000])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_each_setting(device, settings, vocab):
    prompt, generated, predictions = [1, 4, 4, 8], [3, 4], [4, 7, 7, 2, 9, 3, 3, 10]
    predictions = predictions + [1] * settings.forced  # a forced state has no row after the last
    logits = random_logits(27, vocab)
    logits[9:18] = np.round(logits[9:18])  # ties
    logits[18:] *= 4
    states = [replace(settings, seed=seed).state(prompt, generated) for seed in (1, 2**63 + 5, 77)]
    samples = assert_same_samples(device, logits, states, [predictions] * 3)
    assert not samples.status.any()


def test_settings_mixed_in_one_batch(device):
    """More rows than are drawn at once; none sees what the others ask for."""
    rng = np.random.default_rng(3)
    settings = [replace(each, seed=int(rng.integers(2**62))) for each in [*SETTINGS.values()] * 3]
    predictions = [rng.integers(0, 3001, rng.integers(0, 4)).tolist() for _ in settings]
    states = [each.state(rng.integers(0, 3001, 20).tolist()) for each in settings]
    num_drawn = sum(not each.forced for each in settings)
    logits = random_logits(num_drawn + sum(map(len, predictions)), 3001)
    assert_same_samples(device, logits, states, predictions)


def test_a_large_vocabulary(device):
    settings = [
        Settings(logprobs=True),
        Settings(top_p=0.95, logprobs=True, num_candidates=4, rank=True, entropy=True),
        Settings(temperature=0.0),
    ]
    logits = random_logits(3, 152_000)
    assert_same_samples(device, logits, [each.state() for each in settings], [[], [], []])


@pytest.mark.parametrize("value", [np.nan, INFINITY, -np.nan])
@pytest.mark.parametrize("settings", [SETTINGS["greedy"], SETTINGS["everything"]])
def test_rows_that_cannot_be_used(device, settings, value):
    """Rows of NaN, and rows without any candidate left, among others."""
    logits = random_logits(5, 300)
    logits[1, 256] = value
    logits[3] = -INFINITY
    states = [replace(settings, seed=row).state() for row in range(5)]
    samples = assert_same_samples(device, logits, states, [[]] * 5)
    assert samples.status.tolist() == [0, 2, 0, 1, 0]


def test_a_row_that_overflows_in_the_steps_is_invalid(device):
    logits = np.full((1, 8), 3e38, np.float32)
    samples = assert_same_samples(device, logits, [Settings(temperature=0.5).state()], [[]])
    assert samples.status.tolist() == [2]


@pytest.mark.parametrize("size", [2.0**21, 2.0**22, 2.0**23, 2.0**30])
def test_ties_of_scores_go_to_the_lowest_id(device, size):
    logits = (size + np.round(random_logits(100, 200, scale=1.5))).astype(np.float32)
    assert_same_samples(device, logits, [Settings(seed=row).state() for row in range(100)], [[]] * 100)


def test_few_tokens_above_minus_infinity(device):
    logits = np.full((20, 700), -INFINITY, np.float32)
    logits[:, [5, 300, 699]] = random_logits(20, 3)
    for name in ("top-k", "top-p", "top-k and top-p", "min-p", "everything"):
        states = [replace(SETTINGS[name], seed=row).state() for row in range(20)]
        assert_same_samples(device, logits, states, [[]] * 20)


def test_equal_tokens_are_cut_by_their_ids(device):
    """Whatever share is kept: the sums of a nucleus have no order that could differ."""
    settings = [Settings(top_p=share / 17, num_candidates=600, seed=share) for share in range(1, 18)]
    settings += [Settings(top_k=share * 35, num_candidates=600, seed=share) for share in range(1, 18)]
    logits = np.zeros((len(settings), 600), np.float32)
    logits[:, ::7] = -0.0
    assert_same_samples(device, logits, [each.state() for each in settings], [[]] * len(settings))


def test_the_least_vocabulary(device):
    for settings in (SETTINGS["plain"], SETTINGS["top-p"], SETTINGS["candidates"]):
        assert_same_samples(device, random_logits(3, 1), [settings.state()] * 3, [[]] * 3)
