"""The samplers keep what their definitions keep, with the same probabilities, in the order that is asked for."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Sampler
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.sampling_reference import (
    Floats,
    Settings,
    draw_one,
    random_logits,
    record_of,
    reported_logprobs,
    sample,
)
from tests.native.harness.step_reference import STEPS, through_steps

VOCAB = 700

STEP_SETTINGS = {
    "top-n-sigma": Settings(top_n_sigma=1.3),
    "top-n-sigma of little": Settings(top_n_sigma=0.05),
    "smoothing": Settings(smoothing_factor=0.3),
    "smoothing with a curve": Settings(smoothing_factor=0.2, smoothing_curve=2.2),
    "dynamic temperature": Settings(temperature=1.1, dynatemp_range=0.6),
    "dynamic temperature down to 0": Settings(temperature=0.5, dynatemp_range=2.0, dynatemp_exponent=1.7),
    "top-a": Settings(top_a=0.3),
    "tail-free": Settings(tfs_z=0.95),
    "tail-free of little": Settings(tfs_z=0.1),
    "typical": Settings(typical_p=0.9),
    "typical of little": Settings(typical_p=0.05),
    "epsilon": Settings(epsilon_cutoff=0.003),
    "epsilon of all": Settings(epsilon_cutoff=1.0),
    "eta": Settings(eta_cutoff=0.02),
    "xtc": Settings(xtc_probability=1.0, xtc_threshold=0.02),
    "xtc of none": Settings(xtc_probability=1.0, xtc_threshold=0.9),
    "xtc of all": Settings(xtc_probability=1.0, xtc_threshold=0.0),
    "skew": Settings(skew=0.7),
    "skew to the best": Settings(skew=-1.5),
    "every sampler": Settings(
        temperature=1.4,
        top_k=300,
        top_p=0.987,
        min_p=1e-4,
        top_n_sigma=3.0,
        smoothing_factor=0.05,
        smoothing_curve=1.5,
        dynatemp_range=0.3,
        top_a=0.01,
        tfs_z=0.99,
        typical_p=0.98,
        epsilon_cutoff=1e-4,
        eta_cutoff=1e-3,
        xtc_probability=0.5,
        xtc_threshold=0.05,
        skew=0.2,
    ),
    "temperature last": Settings(temperature=2.5, top_p=0.9, min_p=0.05, samplers=("min_p", "top_p", "temperature")),
    "xtc before top-k": Settings(
        xtc_probability=1.0, xtc_threshold=0.03, top_k=20, typical_p=0.8, samplers=("xtc", "top_k", "typical")
    ),
}


def adversarial_logits() -> Floats:
    """Ties, gaps, a single token, one that leads, numbers far apart and nearly none."""
    logits = random_logits(12, VOCAB, seed=3)
    logits[0] = np.round(logits[0])
    logits[1, ::3] = -np.inf
    logits[2] = 0
    logits[3, 1:] = -np.inf
    logits[4, 17] = 40
    logits[5] *= 30
    logits[6] *= 1e-3
    logits[7, 2:] = -np.inf
    logits[8] = np.where(np.arange(VOCAB) < 50, np.float32(2), np.float32(-9))
    logits[9] += np.float32(1e4)
    logits[10] = -np.arange(VOCAB, dtype=np.float32) / 40
    return logits


def assert_as_defined(logits: Floats, settings: Settings) -> None:
    """Kept sets are equal and probabilities close, in rows of seeds of their own."""
    asked = replace(settings, logprobs=True, num_candidates=VOCAB)
    samples = sample(logits, [replace(asked, seed=row).state() for row in range(len(logits))])
    for row in range(len(logits)):
        expected = through_steps(logits[row], replace(settings, seed=row))
        logprobs = reported_logprobs(samples, row, VOCAB)
        if settings.skew == 0:
            assert np.array_equal(np.isfinite(logprobs), np.isfinite(expected)), f"row {row}"
        assert np.allclose(np.exp(logprobs.astype(np.float64)), np.exp(expected), rtol=0, atol=1e-6), f"row {row}"
        assert samples.logprobs[row] == logprobs[samples.token_ids[row]] > -np.inf


@pytest.mark.parametrize("name", STEP_SETTINGS)
def test_a_sampler_matches_its_definition(name: str) -> None:
    assert_as_defined(random_logits(40, VOCAB), STEP_SETTINGS[name])


@pytest.mark.parametrize("name", STEP_SETTINGS)
def test_a_sampler_matches_its_definition_in_odd_rows(name: str) -> None:
    assert_as_defined(adversarial_logits(), STEP_SETTINGS[name])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STEP_SETTINGS)
def test_a_sampler_matches_its_definition_in_ten_thousand_rows(name: str) -> None:
    assert_as_defined(random_logits(10_000, VOCAB, seed=9), STEP_SETTINGS[name])


@pytest.mark.parametrize("device_name", [name for name in DEVICES if name.startswith("cuda")])
@pytest.mark.parametrize("vocab", [1, VOCAB])
def test_every_device_computes_the_same_bits(device_name: str, vocab: int) -> None:
    """More rows than are drawn at once, each with samplers of its own, and some with none of these."""
    device = make_device(device_name, threads=1)
    asked = [replace(each, logprobs=True, num_candidates=9) for each in (*STEP_SETTINGS.values(), Settings(top_p=0.9))]
    rows = adversarial_logits()[: 1 if vocab == 1 else None, :vocab]
    logits = np.concatenate([rows] * len(asked))
    states = [replace(asked[row // len(rows)], seed=row).state() for row in range(len(logits))]
    expected = sample(logits, states)
    samples = Sampler(device).sample(make_logits(device, logits), states, [[] for _ in states])
    for row in range(len(logits)):
        setting, number = divmod(row, len(rows))
        assert record_of(samples, row) == record_of(expected, row), f"row {number} of {asked[setting]}"


def test_the_default_sampler_order_is_that_of_all_samplers() -> None:
    logits, settings = random_logits(40, VOCAB), STEP_SETTINGS["every sampler"]
    plain = Settings(temperature=0.8, top_k=90, top_p=0.9, min_p=0.01)
    for each in (settings, plain):
        asked = [replace(each, seed=row, logprobs=True) for row in range(40)]
        in_order = sample(logits, [replace(one, samplers=tuple(STEPS)).state() for one in asked])
        unsaid = sample(logits, [one.state() for one in asked])
        assert np.array_equal(unsaid.token_ids, in_order.token_ids)
        assert unsaid.logprobs.tobytes() == in_order.logprobs.tobytes()


def test_samplers_not_named_in_the_order_do_nothing() -> None:
    logits = random_logits(1, VOCAB)[0]
    whole = Settings(num_candidates=VOCAB)
    unnamed = replace(whole, temperature=0.3, top_k=3, typical_p=0.1, samplers=("top_a",))
    assert np.array_equal(
        reported_logprobs(draw_one(logits, unnamed), 0, VOCAB), reported_logprobs(draw_one(logits, whole), 0, VOCAB)
    )


def test_temperature_0_takes_the_best_whatever_the_order() -> None:
    logits = random_logits(20, VOCAB)
    settings = Settings(temperature=0.0, xtc_probability=1.0, xtc_threshold=0.0, skew=5.0, samplers=("skew", "xtc"))
    samples = sample(logits, [replace(settings, seed=row).state() for row in range(20)])
    assert np.array_equal(samples.token_ids, logits.argmax(axis=1))


def test_values_that_overflow_are_invalid() -> None:
    """The sums before and after that one are of finite numbers, or are not taken."""
    logits = np.array([3e38, 2e38, -3e38, 0], np.float32)
    hot = Settings(temperature=0.5, samplers=("temperature", "typical", "tail_free"), typical_p=0.5, tfs_z=0.5)
    assert draw_one(logits, hot).status[0] == 2
    for settings in (Settings(smoothing_factor=3e38, smoothing_curve=3.0), Settings(top_n_sigma=1.0)):
        assert draw_one(logits, settings).token_ids[0] == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_n_sigma", -0.1),
        ("smoothing_curve", 3.1),
        ("tfs_z", 0.0),
        ("typical_p", 1.1),
        ("epsilon_cutoff", float("nan")),
        ("xtc_probability", 2.0),
        ("skew", 11.0),
        ("samplers", ("top_k", "top_k")),
        ("samplers", ("warmth",)),
    ],
)
def test_a_bad_parameter_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        replace(Settings(), **{field: value}).state()


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """Of counts against probabilities, where there is any probability."""
    expected = expected * counts.sum()
    assert not counts[expected == 0].any()
    kept = expected > 0
    return float(((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum())


def drawn_counts(logits: Floats, settings: Settings, count: int) -> np.ndarray:
    """How often each token is drawn at so many positions."""
    rows = np.broadcast_to(logits, (count, len(logits))).copy()
    return np.bincount(
        sample(rows, [settings.state()], [[0] * (count - 1)], threads=2).token_ids, minlength=len(logits)
    )


DRAWN = {
    "top-n-sigma": Settings(top_n_sigma=1.4),
    "smoothing": Settings(smoothing_factor=0.6, smoothing_curve=1.5),
    "dynamic temperature": Settings(temperature=1.2, dynatemp_range=0.7),
    "top-a": Settings(top_a=0.4),
    "tail-free": Settings(tfs_z=0.7),
    "typical": Settings(typical_p=0.6),
    "epsilon": Settings(epsilon_cutoff=0.1),
    "eta": Settings(eta_cutoff=0.3),
    "xtc": Settings(xtc_probability=0.4, xtc_threshold=0.1),
    "skew": Settings(skew=0.5),
}


@pytest.mark.parametrize("name", DRAWN)
def test_draws_follow_the_distribution(name: str) -> None:
    """With 5 degrees of freedom a chi-square of 45 is passed once in 7e7 runs; other numbers pass it by far."""
    logits = np.array([1.0, 0.7, 0.1, -0.4, -0.5, -1.6], np.float32)
    settings = replace(DRAWN[name], seed=4)
    whole = np.exp(through_steps(logits, Settings()))
    changed = np.exp(through_steps(logits, replace(settings, xtc_probability=float(name == "xtc"))))
    share = settings.xtc_probability or 1.0
    expected = share * changed + (1 - share) * whole
    counts = drawn_counts(logits, settings, 100_000)
    assert chi_square(counts, whole) > 45  # as without it
    assert chi_square(counts, expected) < 45
    assert chi_square(counts, 0.9 * expected + 0.1 / len(logits)) > 45
