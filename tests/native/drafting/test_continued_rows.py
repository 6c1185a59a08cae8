"""An attached drafter whose masks continue the rows that it reads: all predictions of a step are of one pass."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from services.engine.checkpoint.model_config import Attention, FeatureBlock, FeatureNorm, Features, ModelConfig
from tests.native.drafting.test_features import NUM_ROWS, SMALL, Pair, Reference, fill, state
from tests.native.harness.devices import DEVICES
from tests.native.harness.random_models import PLAIN, random_weights
from tests.native.harness.reference_decoder import KvCache

MASK = 77
SIZE = 5


def drafter_of(**changes: object) -> ModelConfig:
    block = FeatureBlock(size=SIZE, mask_token=MASK, continues_rows=True, first_predicts=True)
    features = Features(count=3, width=PLAIN.hidden_size, block=block, **changes)
    return replace(PLAIN, layers=(Attention(), Attention()), features=features)


DRAFTERS = {
    "shares both tables": drafter_of(),
    "a norm for each feature, a small head": drafter_of(norm=FeatureNorm.EACH, head_size=len(SMALL)),
    "one norm, own tables": drafter_of(
        norm=FeatureNorm.ALL, norm_residual=True, own_embedding=True, head_size=PLAIN.vocab_size
    ),
}


def greedy(config: ModelConfig, pair: Pair, sequence: int, count: int) -> list[int]:
    """The same in torch: rows and masks in one pass."""
    reference = Reference(config)
    following = np.roll(pair.tokens, -1, axis=1)[sequence, :NUM_ROWS].tolist()
    hidden = reference.hidden(pair.tokens[sequence, :NUM_ROWS])
    mask = reference.drafter.hidden(torch.from_numpy(random_weights(config)["mask_features"])[None])
    rows = torch.cat([hidden, *[mask] * (count - 1)])
    logits, _ = reference.drafter.read(rows, [*following, *[MASK] * (count - 1)], KvCache())
    chosen = logits[NUM_ROWS - 1 :].argmax(-1).tolist()
    return [SMALL[each] for each in chosen] if config.features.head_size == len(SMALL) else chosen


@pytest.mark.parametrize(
    ("config", "device_name"),
    [*product(DRAFTERS.values(), DEVICES)],
    ids=[*map(", on ".join, product(DRAFTERS, DEVICES))],
)
def test_masks_continue_the_rows_of_their_sequences(config, device_name):
    pair, order, counts = Pair(config, device_name), [1, 0], [3, SIZE]
    for _ in range(2):  # what the first pass has written of its masks does not matter
        states = [state(pair, sequence, 0.0) for sequence in order]
        drawn = pair.drafter.decoder.extend(fill(pair, order), pair.sampler, states, [[], []], counts)
        assert drawn == [greedy(config, pair, *each) for each in zip(order, counts, strict=True)]
    batch = fill(pair, order)
    batch.num_logits = 0
    assert pair.drafter.decoder.extend(batch, pair.sampler, [], [], []) == []


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_each_sequence_has_its_own_draws(device_name, temperature):
    config = replace(DRAFTERS["a norm for each feature, a small head"], layers=(Attention(window=9), Attention()))
    pair = Pair(config, device_name, "bf16", threads=2)
    states = [state(pair, sequence, temperature) for sequence in range(2)]
    draw = pair.drafter.decoder.extend
    together = draw(fill(pair, [0, 1]), pair.sampler, states, [[], []], [SIZE, 4])
    for sequence in range(2):
        single = draw(fill(pair, [sequence]), pair.sampler, [states[sequence]], [[]], [SIZE - sequence])
        assert single == [together[sequence]]


def test_blocks_that_cannot_continue_are_refused():
    pair = Pair(DRAFTERS["shares both tables"], DEVICES[0])
    states = [state(pair, sequence, 0.0) for sequence in (1, 0)]
    with pytest.raises(ValueError, match=r"counts\[1\] is 6"):
        pair.drafter.decoder.extend(fill(pair, [1, 0]), pair.sampler, states, [[], []], [1, SIZE + 1])
    config = DRAFTERS["shares both tables"]
    block = replace(config.features.block, first_predicts=False)
    with pytest.raises(ValueError, match="first_predicts"):
        Pair(replace(config, features=replace(config.features, block=block)), DEVICES[0])
