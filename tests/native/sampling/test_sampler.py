"""Which tokens the native sampler draws, and what it does with rows and parameters that it cannot use."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Device, Sampler, SamplingState, isas
from services.engine.decoder.native.testing import gumbel_noise, make_logits
from tests.native.harness.sampling_reference import Settings, draw_one, random_logits, record_of, sample

DRAWN, NO_CANDIDATE, INVALID_LOGITS = 0, 1, 2
INFINITY = float("inf")


@pytest.mark.parametrize("temperature", [0.0, 0.99e-5])
def test_greedy_is_the_argmax_with_the_lowest_id_on_ties(temperature):
    logits = random_logits(40, 1003)
    for row, tied in enumerate([(0, 1002), (500, 501), (7, 900), (1001, 1002)]):
        logits[row, list(tied)] = 50
    samples = sample(logits, [Settings(temperature=temperature, seed=row).state() for row in range(40)])
    assert np.array_equal(samples.token_ids, logits.argmax(axis=1))
    assert not samples.status.any()


@pytest.mark.parametrize("temperature", [0.05, 0.8, 1.0, 1.7, 30.0])
@pytest.mark.parametrize(("vocab", "scale"), [(1, 3.0), (6, 1.0), (1001, 0.0), (1001, 3.0), (152_000, 3.0)])
def test_a_token_is_the_argmax_of_value_plus_noise(vocab, scale, temperature):
    """The plain form of the draw over the whole row: passing over hopeless candidates must not show."""
    logits = random_logits(16, vocab, scale=scale)
    prompts = [[0] * (17 * row) for row in range(16)]
    states = [Settings(temperature=temperature, seed=2**60 + row).state(prompts[row]) for row in range(16)]
    samples = sample(logits, states)
    for row in range(16):
        noise = gumbel_noise(2**60 + row, len(prompts[row]), 0, vocab)
        assert samples.token_ids[row] == np.argmax(logits[row] / np.float32(temperature) + noise)


def test_the_lowest_id_wins_a_tie_of_scores():
    """At values of 2^30 a float32 cannot hold the noise, so all scores of the tied tokens are equal."""
    logits = random_logits(20, 50)
    logits[:, [13, 20, 44]] = 2.0**30
    samples = sample(logits, [Settings(seed=row).state() for row in range(20)])
    assert samples.token_ids.tolist() == [13] * 20


@pytest.mark.parametrize("size", [2.0**21, 2.0**22, 2.0**23])
def test_tied_scores_of_unequal_logits_go_to_the_lowest_id(size):
    """At these sizes a float32 keeps a quarter, a half or a whole, so that scores meet by chance."""
    logits = size + np.round(random_logits(300, 200, scale=1.5))
    samples = sample(logits, [Settings(seed=row).state() for row in range(300)])
    scores = np.array([logits[row] + gumbel_noise(row, 0, 0, 200) for row in range(300)])
    assert np.array_equal(samples.token_ids, scores.argmax(axis=1))
    tied = [logits[row, scores[row] == scores[row].max()] for row in range(300)]
    best_comes_later = sum(values[0] < values.max() for values in tied)
    assert best_comes_later >= 5


def test_the_greatest_noise_outweighs_a_lead_of_20():
    """At this position of seed 0 the token draws the greatest noise there is, found by search."""
    position, token_id, noise = 18_696, 98_353, 22.87
    logits = np.full((2, 152_000), -np.inf, np.float32)
    leader_noise = gumbel_noise(0, position, 0, 1)[0]
    logits[:, 0] = 5
    logits[0, token_id] = 5 + leader_noise - (noise - 0.1)
    logits[1, token_id] = 5 + leader_noise - (noise + 0.1)
    samples = sample(logits, [Settings().state([0] * position)] * 2)
    assert samples.token_ids.tolist() == [token_id, 0]


def test_a_tiny_temperature_draws_the_best():
    logits = random_logits(30, 500)
    samples = sample(logits, [Settings(temperature=1.01e-5, seed=row).state() for row in range(30)])
    assert np.array_equal(samples.token_ids, logits.argmax(axis=1))


def test_only_seed_and_position_change_the_draw():
    logits = np.zeros((200, 1000), np.float32)
    same = sample(logits, [Settings(seed=1).state() for _ in range(200)]).token_ids
    assert len(set(same.tolist())) == 1
    seeds = sample(logits, [Settings(seed=seed).state() for seed in range(200)]).token_ids
    assert len(set(seeds.tolist())) > 150
    positions = sample(logits, [Settings(seed=1).state([0] * length) for length in range(200)]).token_ids
    assert len(set(positions.tolist())) > 150
    split = sample(logits, [Settings(seed=1).state([0] * (199 - n), [0] * n) for n in range(200)]).token_ids
    assert set(split.tolist()) == {positions[199]}


def test_a_row_with_every_token_masked_has_no_candidate():
    logits = random_logits(4, 10)
    logits[1] = -np.inf
    logits[2, 1:] = -np.inf
    ban = replace(Settings(logprobs=True, num_candidates=3), logit_bias=((0, -INFINITY),))
    samples = sample(logits, [Settings().state(), ban.state(), ban.state(), ban.state()])
    assert samples.status.tolist() == [DRAWN, NO_CANDIDATE, NO_CANDIDATE, DRAWN]
    assert samples.token_ids[1:3].tolist() == [-1, -1]
    assert np.isnan(samples.logprobs[1:3]).all()
    assert samples.candidates(1) == []


def test_min_tokens_may_leave_no_candidate():
    logits = np.full(5, -np.inf, np.float32)
    logits[2] = 0
    samples = draw_one(logits, Settings(temperature=0.0, min_tokens=1, stop_ids=(2,)))
    assert samples.status[0] == NO_CANDIDATE


@pytest.mark.parametrize("poison", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 3, 17, 36])
@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.5])
def test_nan_fails_its_own_row_only(poison, place, temperature):
    logits = random_logits(3, 37)
    poisoned = logits.copy()
    poisoned[1, place] = np.copysign(np.float32(poison), poison)
    states = [Settings(temperature=temperature, seed=row, logprobs=True).state() for row in range(3)]
    clean, samples = sample(logits, states), sample(poisoned, states)
    assert samples.status.tolist() == [DRAWN, INVALID_LOGITS, DRAWN]
    assert samples.token_ids[1] == -1
    assert np.isnan(samples.raw_logprobs[1])
    for row in [0, 2]:
        assert record_of(samples, row) == record_of(clean, row)


def test_logits_that_overflow_are_invalid():
    logits = np.array([3e38, 2e38, 0], np.float32)
    assert draw_one(logits, Settings(temperature=0.5)).status[0] == INVALID_LOGITS
    assert draw_one(logits, Settings(temperature=0.0, logit_bias=((0, 3e38),))).status[0] == INVALID_LOGITS
    assert draw_one(logits, Settings(temperature=0.0)).token_ids[0] == 0


def test_minus_infinity_is_never_drawn():
    logits = np.full((200, 64), -np.inf, np.float32)
    logits[:, [5, 40]] = [-300.0, -301.0]
    samples = sample(logits, [Settings(temperature=5.0, seed=seed, logprobs=True).state() for seed in range(200)])
    assert set(samples.token_ids.tolist()) == {5, 40}
    assert np.isfinite(samples.logprobs).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", INFINITY),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", float("nan")),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repetition_penalty", 0.0),
        ("frequency_penalty", float("nan")),
        ("presence_penalty", INFINITY),
        ("logit_bias", ((3, INFINITY),)),
        ("logit_bias", ((3, 1.0), (3, 2.0))),
        ("logit_bias", ((-1, 1.0),)),
        ("min_tokens", -1),
        ("stop_ids", (-5,)),
        ("num_candidates", -1),
    ],
)
def test_a_bad_parameter_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        replace(Settings(), **{field: value}).state()


def test_every_number_must_be_given_and_no_other():
    given = vars(Settings()) | {"prompt": np.zeros(0, np.int32)}
    SamplingState(**given)
    with pytest.raises(TypeError, match="top_p: is missing"):
        SamplingState(**{name: value for name, value in given.items() if name != "top_p"})
    with pytest.raises(TypeError, match="top_k: must be a number of its type"):
        SamplingState(**given | {"top_k": 1.5})
    with pytest.raises(TypeError, match=r"numbers: \d+ are given; there are \d+"):
        SamplingState(**given, warmth=0.5)


def test_ids_outside_the_vocabulary_are_refused():
    logits = np.zeros((1, 10), np.float32)
    for state in [
        Settings().state([10]),
        Settings().state([], [10]),
        Settings(logit_bias=((10, 1.0),)).state(),
        Settings(stop_ids=(10,)).state(),
    ]:
        with pytest.raises(ValueError, match="token id 10 is outside the vocabulary of 10"):
            sample(logits, [state])
    for token_id in [-1, 10]:
        with pytest.raises(ValueError, match=rf"predictions: token id {token_id} is outside"):
            sample(np.zeros((2, 10), np.float32), [Settings().state()], [[token_id]])
    with pytest.raises(ValueError, match="negative"):
        Settings().state([-1])
    state = Settings().state()
    with pytest.raises(ValueError, match="negative"):
        state.commit([3, -1])
    assert state.num_generated == 0


def test_rows_must_match_the_states():
    state = Settings().state()
    with pytest.raises(ValueError, match="have 3 rows, but the states with their predictions need 2"):
        sample(np.zeros((3, 10), np.float32), [state], [[1]])
    with pytest.raises(ValueError, match="one list per state"):
        sample(np.zeros((2, 10), np.float32), [state, state], [[]])
    with pytest.raises(ValueError, match="another device"):
        Sampler(Device.cpu(isas()[-1], 1)).sample(
            make_logits(Device.cpu(isas()[-1], 1), np.zeros((1, 10), np.float32)), [state], [[]]
        )
