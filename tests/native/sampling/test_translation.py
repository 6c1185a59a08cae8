"""A model with other token ids draws the tokens of the model that lends it its noise."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import NoiseIds
from tests.native.harness.devices import make_device, on_cuda
from tests.native.harness.sampling_reference import Settings, random_logits, sample

VOCAB = 130
SETTINGS = [
    Settings(seed=5),
    Settings(seed=6, temperature=0.0),
    Settings(seed=7, temperature=1.4, top_k=50, top_p=0.95, min_p=0.001),
    Settings(seed=8, repetition_penalty=1.3, frequency_penalty=0.2, presence_penalty=0.3),
]


def others(size: int = VOCAB, *, seed: int = 1) -> np.ndarray:
    """Another order of the ids."""
    return np.random.default_rng(seed).permutation(size).astype(np.int32)


@pytest.mark.parametrize("settings", SETTINGS)
def test_lent_noise_draws_the_same_words_at_another_position(device_name: str, settings: Settings):
    partner = others()
    history, predictions = [5, 9, 9], [7, 40]
    logits = random_logits(3, VOCAB)
    expected = sample(logits, [settings.state([3, 3, 8], history)], [predictions]).token_ids
    own = np.argsort(partner).tolist()  # of each of the other's tokens
    state = settings.state([own[token_id] for token_id in (3, 8)], [own[token_id] for token_id in history])
    state.translate(NoiseIds(partner), position=6)
    predicted = [[own[token_id] for token_id in predictions]]
    samples = sample(logits[:, partner], [state], predicted, device=make_device(device_name, threads=1))
    assert [partner[token_id] for token_id in samples.token_ids] == expected.tolist()


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_token_without_a_partner_is_never_drawn(device_name: str, settings: Settings):
    partner = others()
    partner[::2] = -1
    logits = random_logits(40, VOCAB)
    logits[:, ::2] += 5
    states = [replace(settings, seed=seed).state() for seed in range(40)]
    for state in states:
        state.translate(NoiseIds(partner), position=0)
    assert all(sample(logits, states, device=make_device(device_name, threads=1)).token_ids % 2 == 1)


def test_bad_noise_ids_and_positions_are_refused():
    with pytest.raises(ValueError, match="must not be below -1"):
        NoiseIds(np.array([0, -2], np.int32))
    with pytest.raises(ValueError, match="one dimension"):
        NoiseIds(np.zeros((2, 2), np.int32))
    state = Settings().state()
    with pytest.raises(ValueError, match=r"position is -1; it must be in 0 \.\.\."):
        state.translate(NoiseIds(others()), position=-1)
    state.translate(NoiseIds(others(9)), position=0)
    with pytest.raises(ValueError, match="has 9 noise ids, but the vocabulary has 130"):
        sample(random_logits(1, VOCAB), [state])


@on_cuda
def test_each_lent_vocabulary_keeps_its_own_noise(device_name: str):
    """Beside rows without a lender; each lender's noise stays its own, whichever others come and go."""
    device, logits = make_device(device_name, threads=1), random_logits(12, VOCAB)
    kept = NoiseIds(others())
    for round_ in range(3):
        lenders = [None if row % 4 == 0 else kept if row % 2 else NoiseIds(others(seed=row)) for row in range(12)]
        states = [replace(SETTINGS[row % len(SETTINGS)], seed=round_).state() for row in range(12)]
        for state, lender in zip(states, lenders, strict=True):
            if lender is not None:
                state.translate(lender, position=round_)
        on_cpu = sample(logits, states).token_ids.tolist()
        assert sample(logits, states, device=device).token_ids.tolist() == on_cpu
