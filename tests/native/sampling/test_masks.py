"""A mask forbids as a bias of minus infinity does, to the bit, on every device; each row has its own."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Device, Sampler, Samples
from services.engine.decoder.native.testing import make_logits
from tests.harness.models.checkpoints import Kind
from tests.native.decoder.test_extend import RUNS, SEQUENCES, fill, make_batch, make_decoder, rows_of
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.sampling_reference import Settings, random_logits, record_of

INFINITY = float("inf")
VOCAB = 300  # not all bits of a mask's last word are used
PROMPT, GENERATED, PREDICTIONS = [1, 4, 4, 8], [3, 4], [4, 7, 7, 2]

SETTINGS = {
    "greedy": Settings(temperature=0.0, logprobs=True, num_candidates=5),
    "plain": Settings(logprobs=True),
    "truncated": Settings(top_k=20, top_p=0.9, min_p=0.01, logprobs=True, num_candidates=VOCAB),
    "penalised": Settings(
        temperature=1.3,
        repetition_penalty=0.7,
        frequency_penalty=0.4,
        presence_penalty=-0.3,
        logit_bias=((4, 30.0), (7, 40.0), (9, -INFINITY)),
        min_tokens=5,
        stop_ids=(2, 11),
        logprobs=True,
        num_candidates=8,
    ),
}


def random_masks(rows: int, *, seed: int = 0, extra_words: int = 0) -> np.ndarray:
    """A third of all tokens, and bits beyond the vocabulary."""
    shape = (rows, (VOCAB + 31) // 32 + extra_words)
    words = [np.random.default_rng(seed + i).integers(0, 2**32, shape, dtype=np.uint32) for i in range(2)]
    return words[0] & words[1] | np.uint32(1 << 31)


def forbidden_by(mask: np.ndarray) -> list[int]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return np.flatnonzero(bits[:VOCAB] == 0).tolist()


def with_bias_instead(settings: Settings, mask: np.ndarray) -> Settings:
    biases = {**dict(settings.logit_bias), **dict.fromkeys(forbidden_by(mask), -INFINITY)}
    return replace(settings, logit_bias=tuple(sorted(biases.items())))


def draw(device: Device, logits: np.ndarray, states: list, predictions: list, *masks: list) -> Samples:
    return Sampler(device).sample(make_logits(device, logits), states, predictions, *masks)


@pytest.fixture
def device(device_name) -> Device:
    return make_device(device_name, threads=1)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_mask_draws_as_a_bias_of_minus_infinity_does(device, settings):
    rows = len(PREDICTIONS) + 1
    logits, masks = random_logits(rows, VOCAB), random_masks(rows)
    samples = draw(device, logits, [settings.state(PROMPT, GENERATED)], [PREDICTIONS], [masks])
    for row, mask in enumerate(masks):
        biased = with_bias_instead(settings, mask).state(PROMPT, [*GENERATED, *PREDICTIONS[:row]])
        expected = draw(device, logits[row : row + 1], [biased], [[]])
        assert record_of(samples, row) == record_of(expected, 0), f"row {row}"
        assert samples.token_ids[row] not in forbidden_by(mask)
    plain = draw(device, logits, [settings.state(PROMPT, GENERATED)], [PREDICTIONS])
    assert samples.token_ids.tolist() != plain.token_ids.tolist()


def test_raw_log_probabilities_are_the_model_s(device):
    settings = SETTINGS["greedy"]
    logits, masks = random_logits(1, VOCAB), random_masks(1)
    masked = draw(device, logits, [settings.state()], [[]], [masks])
    plain = draw(device, logits, [replace(settings, num_candidates=VOCAB).state()], [[]])
    raw = {token_id: raw for token_id, raw, _ in plain.candidates(0)}
    assert all(raw[token_id] == own for token_id, own, _ in masked.candidates(0))


def test_rows_with_and_without_a_mask_beside_each_other(device):
    """More rows than a device draws at once; a mask may have more words than are needed."""
    rng = np.random.default_rng(1)
    settings = [replace(each, seed=int(rng.integers(2**62))) for each in [*SETTINGS.values()] * 4]
    states = [each.state(PROMPT, GENERATED) for each in settings]
    predictions = [rng.integers(0, VOCAB, rng.integers(0, 4)).tolist() for _ in states]
    masks = [
        None if i % 3 == 0 else random_masks(len(each) + 1, seed=i, extra_words=i % 2)
        for i, each in enumerate(predictions)
    ]
    logits = random_logits(len(states) + sum(map(len, predictions)), VOCAB)
    together = draw(device, logits, states, predictions, masks)
    first = 0
    for state, each, mask in zip(states, predictions, masks, strict=True):
        end = first + len(each) + 1
        alone = draw(device, logits[first:end], [state], [each], [mask])
        assert [record_of(alone, i) for i in range(end - first)] == [record_of(together, i) for i in range(first, end)]
        first = end


def test_a_full_mask_has_no_candidate_and_bad_logits_are_seen(device):
    logits = random_logits(3, VOCAB)
    logits[1, 7] = np.nan
    masks = np.zeros((3, 10), np.uint32)
    masks[2, 0] = 1 << 5
    samples = draw(device, logits, [Settings().state()], [[1, 2]], [masks])
    assert samples.status.tolist() == [1, 2, 0]
    assert samples.token_ids.tolist() == [-1, -1, 5]


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ([], None),
        ([None], None),
        ([None, None], "masks: must be one array, or None, per state"),
        ([np.zeros((2, 10), np.uint32)], r"masks\[0\]: must have two dimensions and 1 rows"),
        ([np.zeros(10, np.uint32)], r"masks\[0\]: must have two dimensions and 1 rows"),
        ([np.zeros((1, 9), np.uint32)], "masks: rows of 9 words; the vocabulary needs 10"),
    ],
)
def test_bad_masks_are_named(device, masks, message):
    if message is None:
        draw(device, random_logits(1, VOCAB), [Settings().state()], [[]], masks)
        return
    with pytest.raises(ValueError, match=message):
        draw(device, random_logits(1, VOCAB), [Settings().state()], [[]], masks)


@pytest.mark.parametrize("device_name", DEVICES)
def test_masked_running_ahead_draws_what_a_pass_and_a_draw_do(device_name):
    run = replace(RUNS[2], count=1)
    tokens = SEQUENCES[run.sequence].tokens[: run.end]
    decoder, sampler = make_decoder(Kind.LLAMA, device_name, 1)
    batch = fill(make_batch([run.end]), rows_of(0, tokens, 0), [(0, run.end - 1)])
    logits = decoder.forward(batch).logits
    plain = int(sampler.sample(logits, [run.settings.state(tokens)], [[]]).token_ids[0])
    mask = np.full((1, 16), 0xFFFFFFFF, np.uint32)
    mask[0, plain // 32] &= ~np.uint32(1 << plain % 32)
    expected = sampler.sample(logits, [run.settings.state(tokens)], [[]], [mask]).token_ids.tolist()
    assert decoder.extend(batch, sampler, [run.settings.state(tokens)], [[]], [1], [mask]) == [expected]
    assert expected != [plain]
