"""A run-ahead ends early where its draws were too close calls for a larger model to make all of them too."""

import math

import numpy as np
import pytest

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import Batch, Decoder, Device, Sampler, isas
from services.engine.decoder.native.testing import gumbel_noise
from tests.harness.models.checkpoints import VOCAB_SIZE, Kind, random_checkpoint
from tests.native.harness.sampling_reference import Settings

COUNT = 12
BLOCKS = 2  # of each sequence, for prompt and run
PROMPTS = [[*range(30, 30 + length)] for length in (5, 17, 9)]
WAYS = {"greedy": Settings(temperature=0.0), "sampled": Settings(seed=5, temperature=0.7)}


@pytest.fixture(scope="module")
def engine() -> tuple[Decoder, Sampler]:
    device = Device.cpu(isas()[0], 1)
    checkpoint = load_checkpoint(random_checkpoint(Kind.LLAMA))
    decoder = load_decoder(checkpoint, device, weights="f32", kv="f32", num_blocks=BLOCKS * len(PROMPTS))
    return decoder, Sampler(device)


def batch_of(sequences: list[list[int]], *, asked: list[int]) -> Batch:
    """All rows of the sequences, each with so many of the last asked."""
    batch = Batch(max_rows=256, max_sequences=len(sequences), max_blocks=BLOCKS)
    for index, (tokens, num_logits) in enumerate(zip(sequences, asked, strict=True)):
        blocks = [*range(BLOCKS * index, BLOCKS * (index + 1))]
        batch.append(tokens, position=0, blocks=blocks, num_logits=num_logits)
    return batch


def drawn(engine: tuple[Decoder, Sampler], settings: Settings, least_chances: list[float]) -> list[list[int]]:
    decoder, sampler = engine
    states = [settings.state(prompt) for prompt in PROMPTS]
    batch = batch_of(PROMPTS, asked=[1] * len(PROMPTS))
    counts, chains = [COUNT] * len(PROMPTS), [()] * len(PROMPTS)
    return decoder.extend(batch, sampler, states, chains, counts, [None] * len(PROMPTS), least_chances)


def chances(decoder: Decoder, settings: Settings, prompt: list[int], tokens: list[int]) -> np.ndarray:
    """After each token, the chance that a larger model draws all so far: from margins, by their scores' formula."""
    batch = batch_of([[*prompt, *tokens[:-1]]], asked=[len(tokens)])
    scores = decoder.forward(batch).logits.numpy()
    if settings.temperature:
        noise = [gumbel_noise(settings.seed, len(prompt) + place, 0, VOCAB_SIZE) for place in range(len(tokens))]
        scores = scores / np.float32(settings.temperature) + np.array(noise)
    assert scores.argmax(axis=1).tolist() == tokens
    best = np.sort(scores, axis=1)
    return np.cumprod([1 / (1 + math.exp(0.5 - margin)) for margin in best[:, -1] - best[:, -2]])


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS)
def test_a_run_ends_once_its_chance_is_below_the_least(engine, settings):
    whole = drawn(engine, settings, [])
    assert [len(tokens) for tokens in whole] == [COUNT] * len(PROMPTS)
    least = [0.5, 0.02, 0.0]
    ended = drawn(engine, settings, least)
    for prompt, all_tokens, tokens, chance in zip(PROMPTS, whole, ended, least, strict=True):
        is_below = chances(engine[0], settings, prompt, all_tokens) < chance
        assert tokens == all_tokens[: int(is_below.argmax()) + 1 if is_below.any() else COUNT]
    assert len(ended[0]) < len(ended[2]) == COUNT


def test_a_least_chance_of_one_ends_each_run_after_one_draw(engine):
    settings = WAYS["sampled"]
    assert drawn(engine, settings, [1.0] * 3) == [tokens[:1] for tokens in drawn(engine, settings, [0.0] * 3)]


def test_least_chances_need_one_entry_for_each_state(engine):
    with pytest.raises(ValueError, match=r"least_chances has 1 entries; it must have one for each of the 3 states"):
        drawn(engine, WAYS["greedy"], [0.5])
