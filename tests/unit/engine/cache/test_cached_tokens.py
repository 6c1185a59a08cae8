"""CachedTokens: how far a text is computed, whatever is appended to it or replaced."""

import pytest

from services.engine.cache.cached_tokens import CachedTokens


def text_of(num_tokens: int, num_computed: int) -> CachedTokens:
    text = CachedTokens(range(num_tokens))
    text.settle(num_computed)
    return text


@pytest.mark.parametrize(("num_rows", "num_computed"), [(1, 1), (4, 4), (5, 4), (9, 4)])
def test_the_last_token_never_counts_as_computed(num_rows, num_computed):
    text = text_of(5, num_rows)
    assert (text.num_computed, text.num_pending) == (num_computed, 5 - num_computed)


@pytest.mark.parametrize(
    ("start", "token_ids", "num_computed"),
    [(7, [8], 4), (4, [8, 9], 4), (3, [8, 9], 3), (3, [], 2), (0, [8], 0), (0, [], 0)],
)
def test_a_rewind_keeps_what_is_computed_before_it(start, token_ids, num_computed):
    text = text_of(8, 4)
    text.rewind(start, token_ids)
    assert text.tokens == [*range(start), *token_ids]
    assert text.num_computed == num_computed
