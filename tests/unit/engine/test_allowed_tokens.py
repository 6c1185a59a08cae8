"""AllowedTokens: a set of ids as the sampler's masks have it, also for another vocabulary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.draft_protocol.conversions import read_allowed_tokens, write_allowed_tokens
from services.engine.allowed_tokens import AllowedTokens
from tests.harness.grammar.grammars import allowed as allowed_ids

sizes = st.integers(1, 200)
ids_and_size = sizes.flatmap(lambda size: st.tuples(st.lists(st.integers(0, size - 1), min_size=1), st.just(size)))


@given(ids_and_size, st.integers(1, 3))
def test_a_mask_has_a_bit_for_each_id_in_every_row(ids_and_size, num_rows):
    token_ids, size = ids_and_size
    allowed = AllowedTokens.of(token_ids, vocab_size=size)
    masks = allowed.restrict(None, num_rows)
    assert (len(masks), masks.shape[1] * 32 >= size) == (num_rows, True)
    for mask in masks:
        assert allowed_ids(mask, masks.shape[1] * 32) == sorted({*token_ids})
    assert [token_id for token_id in range(2 * size) if token_id in allowed] == sorted({*token_ids})


@given(ids_and_size, st.randoms(use_true_random=False), st.integers(0, 40))
def test_masks_are_intersected_with_the_allowed_tokens(ids_and_size, random, num_more):
    token_ids, size = ids_and_size
    words = -(-(size + num_more) // 32)
    masks = np.array([[random.getrandbits(32) for _ in range(words)] for _ in range(2)], dtype=np.uint32)
    both = AllowedTokens.of(token_ids, vocab_size=size).restrict(masks, 2)
    for mask, others in zip(both, masks, strict=True):
        assert {*allowed_ids(mask, words * 32)} == {*allowed_ids(others, words * 32)} & {*token_ids}


@given(ids_and_size, sizes)
def test_allowed_tokens_are_read_for_another_vocabulary_size(ids_and_size, other_size):
    token_ids, size = ids_and_size
    written = write_allowed_tokens(AllowedTokens.of(token_ids, vocab_size=size))
    read = read_allowed_tokens(written, vocab_size=other_size)
    assert read is not None
    masks = read.restrict(None, 1)
    assert masks.shape[1] * 32 >= other_size
    assert allowed_ids(masks[0], other_size) == sorted({token_id for token_id in token_ids if token_id < other_size})


def test_empty_bytes_mean_that_all_tokens_are_allowed():
    assert write_allowed_tokens(None) == b""
    assert read_allowed_tokens(b"", vocab_size=9) is None


@pytest.mark.parametrize("partners", [[3, -1, 0, 2], [-1], []])
def test_partners_of_allowed_tokens_are_allowed(partners):
    allowed = AllowedTokens.of([0, 3], vocab_size=5).partners(np.array(partners, dtype=np.int32))
    assert [index in allowed for index in range(len(partners))] == [partner in {0, 3} for partner in partners]
