"""BlockManager: every block is free or has one owner, and a sequence has as many as its tokens need."""

import pytest

from services.engine.cache.block_manager import BlockManager
from services.engine.cache.cached_tokens import CachedTokens


@pytest.fixture
def blocks() -> BlockManager:
    return BlockManager(num_blocks=6, block_size=4)


@pytest.fixture
def pair() -> tuple[CachedTokens, CachedTokens]:
    return CachedTokens(b"Hello", cache_scope=""), CachedTokens(b"Hello", cache_scope="")


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_begun_block_counts_whole(blocks, num_tokens, num_blocks):
    assert blocks.blocks_for(num_tokens) == num_blocks


def test_a_sequence_grows_and_shrinks_with_its_tokens(blocks, pair):
    sequence, _ = pair
    for num_tokens, num_blocks in [(1, 1), (4, 1), (9, 3)]:
        blocks.grow(sequence, num_tokens)
        assert len(sequence.blocks) == num_blocks
    kept = sequence.blocks[:2]
    blocks.shrink(sequence, 5)
    assert sequence.blocks == kept  # what holds the first tokens stays where it is
    blocks.grow(sequence, 3)
    assert sequence.blocks == kept  # growing never takes away
    blocks.shrink(sequence, 0)
    assert sequence.blocks == []
    assert blocks.num_free == 6


def test_no_block_has_two_owners(blocks, pair):
    for num_tokens in range(1, 13):
        for sequence in pair:
            blocks.grow(sequence, num_tokens)
        blocks.check_integrity(pair)
    assert blocks.num_free == 0
    assert not set(pair[0].blocks) & set(pair[1].blocks)


def test_can_grow_counts_the_blocks_a_sequence_has(blocks, pair):
    first, second = pair
    blocks.grow(first, 16)
    assert blocks.can_grow(first, 24)
    assert not blocks.can_grow(first, 25)
    assert blocks.can_grow(second, 8)
    assert not blocks.can_grow(second, 9)


def test_sequences_grow_together_or_not_at_all(blocks, pair):
    first, second = pair
    assert blocks.grow_together([(first, 8), (second, 9)])
    assert [len(each.blocks) for each in pair] == [2, 3]
    assert blocks.num_free == 1
    assert not blocks.grow_together([(first, 12), (second, 13)]), "each alone could"
    assert [len(each.blocks) for each in pair] == [2, 3]
    assert blocks.grow_together([(first, 8), (second, 12)]), "they have all that they need"
    assert blocks.num_free == 1
    blocks.check_integrity(pair)


def test_lost_blocks_are_found(blocks, pair):
    blocks.grow(pair[0], 5)
    pair[0].blocks.pop()
    with pytest.raises(AssertionError, match="leaked or shared"):
        blocks.check_integrity(pair)


def test_shared_blocks_are_found(blocks, pair):
    blocks.grow(pair[0], 5)
    pair[1].blocks.append(pair[0].blocks[0])
    with pytest.raises(AssertionError, match="leaked or shared"):
        blocks.check_integrity(pair)


def test_blocks_of_a_forgotten_sequence_are_found(blocks, pair):
    blocks.grow(pair[0], 5)
    with pytest.raises(AssertionError, match="0 owned, 4 free"):
        blocks.check_integrity([pair[1]])


def test_a_shared_block_follows_blocks_that_all_its_owners_have():
    """Else the one before could be evicted first, and other tokens in its place would find the block."""
    blocks = BlockManager(num_blocks=16, block_size=4)

    def computed(num_tokens: int) -> CachedTokens:
        text = CachedTokens(range(num_tokens), cache_scope="")
        blocks.reuse(text)
        blocks.grow(text, num_tokens)
        text.settle(num_tokens)
        blocks.keep(text, text.num_computed)
        return text

    first, second = computed(9), computed(9)
    assert first.blocks[:2] == second.blocks[:2]
    blocks.forget()
    third = computed(5)
    blocks.keep(second, 8)
    blocks.release(second)
    blocks.release(third)
    blocks.check_integrity([first])
