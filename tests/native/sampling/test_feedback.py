"""Samplers that feed back keep what their definitions keep, and have the same level after each token, to the bit."""

from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np
import pytest

from tests.native.harness.devices import make_device, on_cuda
from tests.native.harness.feedback_reference import first_level, next_level, step
from tests.native.harness.sampling_reference import (
    Doubles,
    Floats,
    Settings,
    log_softmax,
    random_logits,
    record_of,
    sample,
)
from tests.native.harness.sampling_reference import reported_logprobs as reported
from tests.native.harness.step_reference import temperature
from tests.native.sampling.test_steps import adversarial_logits, chi_square

VOCAB = 700
LENGTH = 8
FEEDBACK = {
    "mirostat 2": Settings(mirostat_mode=2, mirostat_tau=3.0, mirostat_eta=0.3),
    "mirostat 2 of nothing": Settings(mirostat_mode=2, mirostat_tau=0.0, mirostat_eta=2.0),
    "mirostat 2 of much": Settings(mirostat_mode=2, mirostat_tau=1e30, mirostat_eta=1e30),
    "mirostat 1": Settings(mirostat_mode=1, mirostat_tau=3.0, mirostat_eta=0.3),
    "mirostat 1 of nothing": Settings(mirostat_mode=1, mirostat_tau=0.0, mirostat_eta=1.0),
    "mirostat 1 behind a temperature": Settings(mirostat_mode=1, mirostat_tau=4.0, temperature=1.7),
    "adaptive-p": Settings(adaptive_target=0.4, adaptive_decay=0.8),
    "adaptive-p of the least": Settings(adaptive_target=0.0, adaptive_decay=0.0),
    "adaptive-p of the best": Settings(adaptive_target=1.0, adaptive_decay=0.99, temperature=0.7),
}
STEERED = ["mirostat 2", "mirostat 1", "adaptive-p"]


def drawn_one_by_one(logits: Floats, settings: Settings) -> tuple[list[int], list[float], list[tuple[object, ...]]]:
    """The tokens of rows, each committed before the next is drawn, the levels after them, and the records."""
    state, tokens, levels, records = settings.state(), list[int](), list[float](), list[tuple[object, ...]]()
    for row in logits:
        samples = sample(row[np.newaxis], [state])
        tokens.append(int(samples.token_ids[0]))
        levels.append(float(samples.levels[0]))
        records.append(record_of(samples, 0))
        state.commit(tokens[-1:], levels[-1:])
    return tokens, levels, records


def assert_as_defined(logits: Floats, settings: Settings) -> None:
    """Each row, from the level that the definition has after the tokens before it."""
    asked = replace(settings, logprobs=True, num_candidates=logits.shape[1])
    state, level = asked.state(), first_level(settings)
    for row, values in enumerate(logits):
        samples = sample(values[np.newaxis], [state])
        warm: Doubles = temperature(values.astype(np.float64), settings)
        expected, token_id = step(warm, settings, level), int(samples.token_ids[0])
        logprobs = reported(samples, 0, len(values))
        assert np.array_equal(np.isfinite(logprobs), np.isfinite(expected.values)), f"row {row}"
        assert np.allclose(np.exp(logprobs.astype(np.float64)), np.exp(log_softmax(expected.values)), rtol=0, atol=1e-6)
        level = next_level(settings, level, float(expected.judged[token_id]))
        assert samples.levels[0] == pytest.approx(level, rel=1e-9, abs=1e-9), f"row {row}"
        state.commit([token_id], [float(samples.levels[0])])


@pytest.mark.parametrize("name", FEEDBACK)
def test_a_feedback_sampler_follows_its_definition(name: str) -> None:
    assert_as_defined(random_logits(40, VOCAB), FEEDBACK[name])


@pytest.mark.parametrize("name", FEEDBACK)
def test_a_feedback_sampler_follows_its_definition_in_odd_rows(name: str) -> None:
    assert_as_defined(adversarial_logits(), FEEDBACK[name])


@pytest.mark.parametrize("rows", [150, pytest.param(10_000, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", STEERED)
def test_a_feedback_sampler_follows_its_definition_in_many_rows(name: str, rows: int) -> None:
    assert_as_defined(random_logits(rows, 200, seed=9), FEEDBACK[name])


@pytest.mark.parametrize("name", FEEDBACK)
def test_rows_of_one_pass_are_those_of_one_row_each(name: str) -> None:
    """Some predictions are wrong: the rows up to the first such one are those that count."""
    asked = replace(FEEDBACK[name], logprobs=True, num_candidates=9)
    rng = np.random.default_rng(1)
    cases = [(random_logits(LENGTH, VOCAB, seed=seed), replace(asked, seed=seed)) for seed in range(8)]
    alone = [drawn_one_by_one(*case) for case in cases]
    places = [int(rng.integers(LENGTH)) for _ in cases]
    predictions = [_wrong_at(place, tokens[:-1]) for place, (tokens, _, _) in zip(places, alone, strict=True)]
    for threads in (1, 3):
        together = sample(
            np.concatenate([logits for logits, _ in cases]), [case.state() for _, case in cases], predictions,
            threads=threads,
        )  # fmt: skip
        for index, (_, levels, records) in enumerate(alone):
            for row in range(min(places[index], LENGTH - 1) + 1):
                assert record_of(together, index * LENGTH + row) == records[row]
                assert together.levels[index * LENGTH + row] == levels[row]


def _wrong_at(place: int, tokens: Seq[int]) -> list[int]:
    return [token_id if index != place else (token_id + 1) % VOCAB for index, token_id in enumerate(tokens)]


@pytest.mark.parametrize("name", FEEDBACK)
def test_known_tokens_give_the_levels_that_they_were_drawn_with(name: str) -> None:
    logits = random_logits(LENGTH, VOCAB)
    tokens, levels, _ = drawn_one_by_one(logits, FEEDBACK[name])
    state, told = replace(FEEDBACK[name], forced=True).state(), list[float]()
    for first, last in ((0, 5), (5, 6), (6, LENGTH)):
        part = sample(logits[first:last], [state], [tokens[first:last]])
        told.extend(part.levels.tolist())
        state.commit(tokens[first:last], part.levels.tolist())
    assert told == levels


@pytest.mark.parametrize("name", STEERED)
def test_truncated_tokens_leave_no_trace(name: str) -> None:
    logits, settings = random_logits(LENGTH, VOCAB), replace(FEEDBACK[name], logprobs=True)
    tokens, levels, records = drawn_one_by_one(logits, settings)
    state = settings.state()
    state.commit([1, *tokens[:3], 7, 8], [0.5, *levels[:3], 0.1, 0.2])
    state.truncate(0)
    state.commit(tokens[:5], levels[:5])
    state.truncate(4)
    samples = sample(logits[4:5], [state])
    # The draw is at its own position, so that only what was committed can differ.
    assert (record_of(samples, 0), samples.levels[0]) == (records[4], levels[4])


def test_levels_differ_from_row_to_row() -> None:
    """Else the tests above would compare nothing."""
    for name in STEERED:
        _, levels, _ = drawn_one_by_one(random_logits(LENGTH, VOCAB), FEEDBACK[name])
        assert len({*levels}) == LENGTH


def test_mirostat_keeps_its_level_without_given_levels() -> None:
    settings = FEEDBACK["mirostat 2"]
    fresh, told = settings.state(), settings.state()
    fresh.commit([1, 2])
    told.commit([1, 2], [2 * settings.mirostat_tau] * 2)
    logits = random_logits(1, VOCAB)
    assert sample(logits, [fresh]).levels[0] == sample(logits, [told]).levels[0]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(top_a=0.2, mirostat_mode=2, samplers=("top_a",)),
        Settings(temperature=0.0, mirostat_mode=2),
        Settings(temperature=0.0, adaptive_target=0.5),
    ],
)
def test_a_sampler_that_is_off_reports_no_level(settings: Settings) -> None:
    state = settings.state()
    assert not state.feeds_back
    assert np.isnan(sample(random_logits(1, VOCAB), [state]).levels[0])


def test_a_nan_row_ends_its_own_sequence_only() -> None:
    logits = random_logits(4, VOCAB)
    logits[0, 3] = np.nan
    states = [FEEDBACK["mirostat 2"].state() for _ in range(2)]
    samples = sample(logits, states, [[5], [5]])
    assert samples.status.tolist()[0] == 2
    assert np.isnan(samples.levels[0])
    assert samples.status.tolist()[2] == 0


def test_levels_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match="levels: must be one per token"):
        FEEDBACK["mirostat 1"].state().commit([1, 2], [0.5])


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (Settings(mirostat_mode=3), "mirostat_mode"),
        (Settings(mirostat_mode=-1), "mirostat_mode"),
        (Settings(mirostat_tau=-0.1), "mirostat_tau"),
        (Settings(mirostat_eta=float("nan")), "mirostat_eta"),
        (Settings(adaptive_target=1.1), "adaptive_target"),
        (Settings(adaptive_decay=1.0), "adaptive_decay"),
        (Settings(adaptive_target=0.5, mirostat_mode=1), "adaptive_target"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(settings: Settings, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        settings.state()


@pytest.mark.parametrize("draws", [10_000, pytest.param(100_000, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", STEERED)
def test_draws_follow_the_distribution(name: str, draws: int) -> None:
    """With 5 degrees of freedom a chi-square of 45 is passed once in 7e7 runs; a wrong one passes it by far."""
    logits = np.array([1.0, 0.7, 0.1, -0.4, -0.5, -1.6], np.float32)
    settings = replace(FEEDBACK[name], mirostat_tau=1.3)
    rows = np.broadcast_to(logits, (draws, len(logits))).copy()
    token_ids = sample(rows, [replace(settings, seed=seed).state() for seed in range(len(rows))]).token_ids
    counts = np.bincount(token_ids, minlength=len(logits))
    values = step(logits.astype(np.float64), settings, first_level(settings)).values
    expected = np.exp(log_softmax(values))
    assert chi_square(counts, expected) < 45
    assert chi_square(counts, 0.9 * expected + 0.1 / len(logits)) > 45


@on_cuda
@pytest.mark.parametrize("name", FEEDBACK)
def test_every_device_computes_the_same_bits(device_name: str, name: str) -> None:
    """More rows than are drawn at once, of answers with predictions that are right up to some place, beside others."""
    asked = replace(FEEDBACK[name], logprobs=True, num_candidates=9, rank=True, entropy=True)
    tokens, _, _ = drawn_one_by_one(random_logits(LENGTH, VOCAB), asked)
    right = [random_logits(LENGTH, VOCAB) for _ in range(3)]
    logits = np.concatenate([*right, random_logits(2, VOCAB, seed=4), adversarial_logits()])
    states = [asked.state(), asked.state(), replace(asked, forced=True).state(), Settings(seed=7).state()]
    states += [replace(asked, seed=seed).state() for seed in range(len(adversarial_logits()))]
    predictions = [tokens[:-1], _wrong_at(4, tokens[:-1]), tokens, [3], *([] for _ in adversarial_logits())]
    expected = sample(logits, states, predictions)
    samples = sample(logits, states, predictions, device=make_device(device_name, threads=1))
    for row in range(len(logits)):
        assert record_of(samples, row) == record_of(expected, row), f"row {row}"
    assert samples.levels.tobytes() == expected.levels.tobytes()
    assert samples.token_ids[:LENGTH].tolist() == tokens
    assert len({*expected.levels[:LENGTH].tolist()}) > 1 or name.endswith(("nothing", "much"))
