"""HeadShortlist: which tokens are on it, and how tokens that were read get there."""

from pathlib import Path

import numpy as np
import pytest

from services.engine.config import ConfigError, EngineConfig
from services.engine.decoder.native import Batch, isas
from services.engine.head_shortlist import HeadShortlist
from services.engine.loaded_model import LoadedModel
from services.engine.request import ANYBODY
from tests.harness.models.checkpoints import SPECIAL_TOKENS, VOCAB_SIZE, Kind, random_checkpoint

SIZE, FIXED = 80, 60


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return LoadedModel.load(
        EngineConfig(model=Path(random_checkpoint(Kind.QWEN2)), isa=isas()[0], threads=1, kv_blocks=1)
    )


def shortlist_of(model: LoadedModel, size: int) -> HeadShortlist:
    return HeadShortlist(model.decoder, model.tokenizer.special_ids, VOCAB_SIZE, size)


def listed(model: LoadedModel) -> set[int]:
    """The tokens that a pass computes logits of."""
    batch = Batch(max_rows=1, max_sequences=1, max_blocks=1)
    batch.append([3], position=0, blocks=[0], num_logits=1)
    return {*np.flatnonzero(np.isfinite(model.decoder.forward(batch).logits.row(0))).tolist()}


def mask_of(*token_ids: int) -> np.ndarray:
    is_allowed = np.zeros(VOCAB_SIZE, dtype=np.uint8)
    is_allowed[[*token_ids]] = 1
    return np.packbits(is_allowed, bitorder="little").view(np.uint32).reshape(1, -1)


def test_the_shortlist_starts_with_the_vocabularys_first_tokens(model: LoadedModel):
    shortlist_of(model, SIZE)
    assert model.tokenizer.special_ids == {*range(len(SPECIAL_TOKENS))}
    assert listed(model) == {*range(SIZE)}


def test_tokens_read_stay_on_the_shortlist_until_displaced(model: LoadedModel):
    shortlist = shortlist_of(model, SIZE)
    shortlist.note([([300, 5, 301, 300], ANYBODY)])
    assert listed(model) == {*range(SIZE - 2), 300, 301}
    shortlist.note([([*range(400, 418)], ANYBODY)])
    assert listed(model) == {*range(FIXED), 300, 301, *range(400, 418)}
    shortlist.note([([301, 7], ANYBODY)])
    shortlist.note([([500, 501], ANYBODY)])
    assert listed(model) == {*range(FIXED), 301, *range(401, 418), 500, 501}
    shortlist.note([([*range(VOCAB_SIZE)] * 2, ANYBODY)])
    assert listed(model) == {*range(FIXED), *range(VOCAB_SIZE - SIZE + FIXED, VOCAB_SIZE)}


def test_texts_in_a_private_scope_leave_nothing_on_the_list(model: LoadedModel):
    shortlist_of(model, SIZE).note([([300, 301], "a scope of its own")])
    assert listed(model) == {*range(SIZE)}


def test_all_tokens_of_a_narrow_mask_are_on_the_shortlist(model: LoadedModel):
    shortlist = shortlist_of(model, SIZE)
    shortlist.allow([mask_of(2, 350, 450)])
    assert {350, 450} <= listed(model)


def test_some_tokens_of_a_wide_mask_are_on_the_shortlist(model: LoadedModel):
    shortlist = shortlist_of(model, SIZE)
    shortlist.allow([mask_of(3, *range(200, 400))])
    assert listed(model) == {*range(SIZE)}  # one is there already
    shortlist.allow([mask_of(*range(200, 400))])
    assert listed(model) & {*range(200, 400)}
    assert len(listed(model)) == SIZE


def test_bits_of_a_mask_beyond_the_vocabulary_are_no_tokens(model: LoadedModel):
    shortlist = shortlist_of(model, SIZE)
    words = np.zeros((1, VOCAB_SIZE // 32 + 1), dtype=np.uint32)
    words[0, -1] = 2**32 - 1
    shortlist.allow([words])
    assert listed(model) == {*range(SIZE)}


@pytest.mark.parametrize("size", [0, 3, VOCAB_SIZE + 1])
def test_a_size_that_cannot_be_is_refused(model: LoadedModel, size: int):
    with pytest.raises(ConfigError, match=f"head_shortlist is {size}; it must be from 4 to {VOCAB_SIZE}"):
        shortlist_of(model, size)


def test_all_of_a_vocabulary_may_be_on_it(model: LoadedModel):
    shortlist_of(model, VOCAB_SIZE).note([([VOCAB_SIZE - 1], ANYBODY)])
    assert listed(model) == {*range(VOCAB_SIZE)}
