"""A truncated history equals one that never went further, and a forbidden token is forbidden at one position only."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.decoder.native import Sampler
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.sampling_reference import Settings, draw_one, random_logits, record_of, sample

PENALISED = Settings(
    seed=3,
    repetition_penalty=1.3,
    frequency_penalty=0.2,
    presence_penalty=0.3,
    min_tokens=4,
    stop_ids=(2, 9),
    logprobs=True,
    num_candidates=20,
)
INFINITY = float("inf")
ids = st.lists(st.integers(0, 19), max_size=8)


@given(ids, ids, ids, st.sampled_from([PENALISED, replace(PENALISED, temperature=0.0), Settings(logprobs=True)]))
def test_a_truncated_state_draws_as_one_that_never_saw_the_rest(prompt, kept, dropped, settings):
    logits = random_logits(1, 20)
    state = settings.state(prompt, kept)
    for token_id in dropped:
        state.commit([token_id])
    state.truncate(len(kept))
    assert state.num_generated == len(kept)
    assert record_of(sample(logits, [state]), 0) == record_of(draw_one(logits[0], settings, prompt, kept), 0)
    state.commit(dropped[:2])
    again = draw_one(logits[0], settings, prompt, kept + dropped[:2])
    assert record_of(sample(logits, [state]), 0) == record_of(again, 0)


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("settings", [PENALISED, replace(PENALISED, temperature=0.0), Settings(top_k=3, logprobs=True)])
def test_forbidden_tokens_act_as_a_bias_at_the_next_row_only(device_name: str, settings: Settings):
    device = make_device(device_name, threads=1)
    logits = random_logits(2, 20)
    best = int(logits[0].argmax())
    predictions = [[4]]
    state = settings.state([1, 4], [3])
    state.forbid([best, 7])
    samples = Sampler(device).sample(make_logits(device, logits), [state], predictions)
    banned = replace(settings, logit_bias=((best, -INFINITY), (7, -INFINITY))).state([1, 4], [3])
    assert record_of(samples, 0) == record_of(sample(logits, [banned], predictions), 0)
    free = settings.state([1, 4], [3])
    assert record_of(samples, 1) == record_of(sample(logits, [free], predictions), 1)


@pytest.mark.parametrize("go_on", [lambda state: state.commit([3]), lambda state: state.truncate(0)])
def test_a_forbidden_token_is_allowed_again_one_position_later(go_on):
    logits = random_logits(1, 20)
    state, other = PENALISED.state([1], [2]), PENALISED.state([1], [2])
    state.forbid([int(logits[0].argmax())])
    go_on(state)
    go_on(other)
    assert record_of(sample(logits, [state]), 0) == record_of(sample(logits, [other]), 0)


def test_where_all_is_forbidden_there_is_no_candidate():
    state = Settings().state()
    state.forbid(range(10))
    assert sample(np.zeros((1, 10), np.float32), [state]).status.tolist() == [1]


def test_bad_truncations_and_forbidden_ids_are_refused():
    state = PENALISED.state([1], [2, 3])
    for count in (-1, 3):
        with pytest.raises(ValueError, match=f"num_generated is {count}; it must be in 0 ... 2"):
            state.truncate(count)
    with pytest.raises(ValueError, match="must not be negative"):
        state.forbid([4, -1])
    state.forbid([20])
    with pytest.raises(ValueError, match="token id 20 is outside the vocabulary of 20"):
        sample(random_logits(1, 20), [state])
