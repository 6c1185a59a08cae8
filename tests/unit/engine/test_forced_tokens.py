"""Forced tokens stand where transformers puts them."""

import numpy as np
import pytest
import torch
from transformers import ForcedBOSTokenLogitsProcessor, ForcedEOSTokenLogitsProcessor

from services.engine.forced_tokens import ForcedIds
from tests.harness.grammar.grammars import allowed

VOCAB = 70  # of three words, the last of them begun
SECOND, LAST = 7, (2, 69)


def forced_by_transformers(num_prompt: int, place: int, max_tokens: int) -> list[int]:
    ids = torch.zeros((1, num_prompt + place), dtype=torch.long)
    scores = ForcedBOSTokenLogitsProcessor(SECOND)(ids, torch.zeros((1, VOCAB)))
    scores = ForcedEOSTokenLogitsProcessor(num_prompt + max_tokens, [*LAST])(ids, scores)
    return torch.isfinite(scores[0]).nonzero().flatten().tolist()


@pytest.mark.parametrize("num_prompt", [1, 2, 9])
@pytest.mark.parametrize("max_tokens", [1, 2, 5])
@pytest.mark.parametrize("num_rows", [1, 3])
def test_the_same_tokens_are_left_as_by_transformers(num_prompt: int, max_tokens: int, num_rows: int) -> None:
    ids = ForcedIds(second=(SECOND,), last=LAST)
    forced = ids.in_answer(num_prompt=num_prompt, min_tokens=0, max_tokens=max_tokens, vocab_size=VOCAB)
    assert forced is not None
    for place in range(max_tokens - num_rows + 1):
        masks = forced.restrict(None, place, num_rows)
        for row in range(num_rows):
            found = [*range(VOCAB)] if masks is None else allowed(masks[row], VOCAB)
            assert found == forced_by_transformers(num_prompt, place + row, max_tokens)


def test_where_masks_forbid_all_forced_ids_nothing_is_forced() -> None:
    forced = ForcedIds(last=LAST).in_answer(num_prompt=3, min_tokens=0, max_tokens=2, vocab_size=VOCAB)
    assert forced is not None
    for left, expected in ([2, 5], [2]), ([5, 6], [5, 6]), ([], []):
        bits = np.zeros((2, 96), dtype=np.uint8)
        bits[:, left] = 1
        masks = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
        before = masks.copy()
        restricted = forced.restrict(masks, 0, 2)
        assert restricted is not None
        assert [allowed(mask, VOCAB) for mask in restricted] == [left, expected]
        assert np.array_equal(masks, before)


def test_an_end_that_comes_too_early_is_not_forced() -> None:
    for min_tokens, is_forced in (4, True), (5, False):
        found = ForcedIds(last=LAST).in_answer(num_prompt=1, min_tokens=min_tokens, max_tokens=5, vocab_size=VOCAB)
        assert (found is not None) == is_forced


def test_most_answers_have_no_place_for_them() -> None:
    assert ForcedIds().in_answer(num_prompt=1, min_tokens=0, max_tokens=5, vocab_size=VOCAB) is None
    assert ForcedIds(second=(SECOND,)).in_answer(num_prompt=2, min_tokens=0, max_tokens=5, vocab_size=VOCAB) is None
