"""A short head computes the logits of its tokens as the whole one does, and none of the others."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.checkpoint.model_config import ModelConfig
from services.engine.decoder.native import Decoder, DecoderConfig, Sampler
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.devices import DEVICES, in_every_weight_format, make_device
from tests.native.harness.random_models import MODELS, PLAIN, PagedDecoder, random_tokens
from tests.native.harness.sampling_reference import Settings

LENGTH = 5
ROWS = [(0, position) for position in range(LENGTH)]
SHORT = 40
CAPPED_AND_TIED = MODELS["both norms, caps, windows, gelu, tied"]
SAMPLED = Settings(seed=4, temperature=1.3)
SETTINGS = {
    "greedy": Settings(temperature=0.0),
    "sampled": SAMPLED,
    "penalised": replace(SAMPLED, repetition_penalty=1.5, frequency_penalty=0.7, logit_bias=((9, 2.0), (4, -1.0))),
    "truncated": replace(SAMPLED, top_k=20, top_p=0.9),
}


def random_ids(seed: int, config: ModelConfig = PLAIN) -> np.ndarray:
    return np.random.default_rng(seed).permutation(config.vocab_size)[:SHORT].astype(np.int32)


def paged(device_name: str, config: ModelConfig = PLAIN, weight_format: str = "bf16") -> PagedDecoder:
    device = make_device(device_name, threads=2)
    return PagedDecoder(config, device, weight_format, tokens=random_tokens(config, 1, LENGTH))


@pytest.mark.parametrize("config", [PLAIN, CAPPED_AND_TIED], ids=["head", "capped, tied"])
@in_every_weight_format
def test_short_head_logits_are_those_of_the_whole_head(device_name: str, weight_format: str, config: ModelConfig):
    model = paged(device_name, config, weight_format)
    whole = model.forward(ROWS)
    ids = random_ids(1, config)
    for chosen in (ids, ids, np.concatenate([ids[:7], random_ids(2, config)[7:]])):  # some rows stay, some are others
        model.decoder.shorten_head(chosen)
        short = model.forward(ROWS)
        if weight_format in {"bf16", "f32"}:
            assert short[:, chosen].tobytes() == whole[:, chosen].tobytes()
        else:  # the scales of rows that are packed a second time may be rounded otherwise
            np.testing.assert_allclose(short[:, chosen], whole[:, chosen], rtol=1e-4, atol=1e-4)
        assert np.isneginf(np.delete(short, chosen, axis=1)).all()
    model.decoder.shorten_head(ids[:0])
    assert model.forward(ROWS).tobytes() == whole.tobytes()


def words_of(is_allowed: np.ndarray) -> np.ndarray:
    """Masks of so many tokens.  # [rows, words]"""
    padded = np.pad(is_allowed, ((0, 0), (0, -is_allowed.shape[1] % 32)))
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint32)


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_short_head_draws_what_the_whole_head_draws_of_its_ids(device_name: str, settings: Settings):
    """With any mask, bias or penalty; and without truncation, the whole head's own draw where that token is listed."""
    model, ids = paged(device_name), random_ids(3)
    is_listed, is_allowed = np.zeros(PLAIN.vocab_size, bool), np.random.default_rng(5).random((LENGTH, 150)) < 0.5
    is_listed[ids] = True
    whole = model.forward(ROWS)
    model.decoder.shorten_head(ids)
    short = model.forward(ROWS)

    def draw(logits: np.ndarray, is_possible: np.ndarray) -> list[int]:
        device = make_device(device_name, threads=1)
        prompts = [[int(row) + 9, 4, 4] for row in range(LENGTH)]
        states = [settings.state(prompt, [4, int(ids[0])]) for prompt in prompts]
        masks = [words[np.newaxis] for words in words_of(is_possible)]
        return Sampler(device).sample(make_logits(device, logits), states, [[]] * LENGTH, masks).token_ids.tolist()

    drawn = draw(short, is_allowed)
    assert drawn == draw(whole, is_allowed & is_listed)
    if settings.top_k == 0:
        for ours, theirs in zip(drawn, draw(whole, is_allowed), strict=True):
            assert ours == theirs or not is_listed[theirs]


def test_no_token_is_drawn_where_a_mask_allows_no_listed_one():
    model, ids = paged(DEVICES[0]), random_ids(3)
    model.decoder.shorten_head(ids)
    device = make_device(DEVICES[0], threads=1)
    others = np.ones((1, PLAIN.vocab_size), bool)
    others[0, ids] = False
    logits = make_logits(device, model.forward(ROWS[:1]))
    assert Sampler(device).sample(logits, [SAMPLED.state()], [[]], [words_of(others)]).token_ids.tolist() == [-1]


def test_a_pass_reads_as_many_bytes_less():
    decoder = paged(DEVICES[0]).decoder
    before = decoder.weight_bytes
    decoder.shorten_head(random_ids(1))
    assert before - decoder.weight_bytes == 2 * PLAIN.hidden_size * (PLAIN.vocab_size - SHORT)


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ([0] * 151, "the number of token_ids is 151; it must be in 0 ... 150"),
        ([3, -1], "token_ids is -1; it must be in 0 ... 149"),
        ([150, 3], "token_ids is 150; it must be in 0 ... 149"),
        ([[3]], "token_ids: must have one dimension"),
    ],
)
def test_tokens_that_there_are_not_are_refused(ids: list, problem: str):
    model = paged(DEVICES[0])
    whole = model.forward(ROWS)
    with pytest.raises(ValueError, match=problem.replace(".", r"\.")):
        model.decoder.shorten_head(np.array(ids, dtype=np.int32))
    assert model.forward(ROWS).tobytes() == whole.tobytes()


def test_a_head_that_is_not_loaded_yet_is_refused():
    device = make_device(DEVICES[0], threads=1)
    decoder = Decoder(device, DecoderConfig(PLAIN), weights="bf16", kv="bf16", num_blocks=1)
    with pytest.raises(RuntimeError, match='weight "embedding" is not loaded'):
        decoder.shorten_head(random_ids(1))
