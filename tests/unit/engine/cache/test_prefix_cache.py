"""The prefix cache: full blocks are found by all their tokens, shared, and given up from the end."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.engine.cache.block_manager import BlockManager
from services.engine.cache.cached_tokens import CachedTokens
from services.engine.cache.kv_offload import KvOffload
from services.engine.cache.memory_pages import MemoryPages
from services.engine.cache.page_store import Page

BLOCK_SIZE = 4


class Pool(BlockManager):
    """A block manager whose blocks hold tokens, so that it shows what a sequence would read."""

    def __init__(self, num_blocks: int, num_pages: int = 0) -> None:
        """With pages, blocks are offloaded to memory that holds so many."""
        store = MemoryPages(num_slots=num_pages, page_bytes=BLOCK_SIZE)
        self.offload = KvOffload(store, read_block=self._read_cells, write_block=self._write_cells)
        offload = self.offload if num_pages else None
        super().__init__(num_blocks=num_blocks, block_size=BLOCK_SIZE, copy_block=self._copy_cells, offload=offload)
        self._cells: list[list[int | None]] = [[None] * BLOCK_SIZE for _ in range(num_blocks)]

    def begin(self, tokens: list[int], *, scope: str | None = "") -> CachedTokens:
        """A sequence that goes on from what is cached, with blocks for all its tokens."""
        owner = CachedTokens(tokens, cache_scope=scope)
        self.reuse(owner)
        self.grow(owner, len(tokens))
        return owner

    def compute(self, owner: CachedTokens, num_tokens: int) -> None:
        """Write the tokens up to there, and let others find what is full."""
        for position in range(owner.num_computed, num_tokens):
            block, offset = owner.blocks[position // BLOCK_SIZE], position % BLOCK_SIZE
            self._cells[block][offset] = owner.tokens[position]
        owner.num_computed = num_tokens
        self.keep(owner, num_tokens)

    def read(self, owner: CachedTokens) -> list[int | None]:
        """What the computed part of a sequence reads."""
        return [cell for block in owner.blocks for cell in self._cells[block]][: owner.num_computed]

    def forget_empty(self) -> None:
        """A block that cannot be found counts as gone."""
        for block in self.empty:
            self._cells[block] = [None] * BLOCK_SIZE

    def _read_cells(self, block: int, page: Page) -> None:
        page[:] = self._cells[block]

    def _write_cells(self, block: int, page: Page) -> None:
        self._cells[block] = page.tolist()

    def _copy_cells(self, source: int, target: int) -> None:
        self._cells[target] = [*self._cells[source]]


def computed(pool: Pool, tokens: list[int], *, scope: str | None = "") -> CachedTokens:
    owner = pool.begin(tokens, scope=scope)
    pool.compute(owner, len(tokens))
    return owner


TOKENS = [*range(10)]


def test_a_live_sequence_shares_its_full_blocks():
    pool = Pool(8)
    first = computed(pool, TOKENS)
    second = pool.begin(TOKENS)
    assert second.num_computed == 8
    assert second.blocks[:2] == first.blocks[:2]
    assert second.blocks[2] != first.blocks[2]
    assert pool.num_free == 4
    pool.check_integrity([first, second])


def test_blocks_of_a_finished_sequence_are_free_and_found():
    pool = Pool(8)
    pool.release(computed(pool, TOKENS))
    assert pool.num_free == 8
    assert pool.begin(TOKENS).num_computed == 8


@pytest.mark.parametrize(("num_tokens", "num_found"), [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (10, 8), (12, 8)])
def test_the_last_token_is_never_found(num_tokens, num_found):
    pool = Pool(8)
    computed(pool, TOKENS)
    assert pool.begin([*TOKENS, 10, 11][:num_tokens]).num_computed == num_found


@pytest.mark.parametrize("changed", [0, 3, 4, 7])
def test_a_block_is_found_only_after_the_same_tokens(changed):
    pool = Pool(8)
    computed(pool, TOKENS)
    tokens = [*TOKENS]
    tokens[changed] = 99
    assert pool.begin(tokens).num_computed == changed // BLOCK_SIZE * BLOCK_SIZE


def test_tokens_with_equal_hashes_are_not_confused():
    assert hash((-1,) * BLOCK_SIZE) == hash((-2,) * BLOCK_SIZE)  # as Python has it
    pool = Pool(8)
    computed(pool, [-1] * 9)
    assert pool.begin([-2] * 9).num_computed == 0


@pytest.mark.parametrize(("scope", "other"), [("a", "b"), ("", "a"), (None, ""), ("", None), (None, None)])
def test_only_sequences_of_one_scope_share(scope, other):
    pool = Pool(8)
    computed(pool, TOKENS, scope=scope)
    assert pool.begin(TOKENS, scope=other).num_computed == 0


def test_equal_computations_end_up_with_shared_blocks():
    pool = Pool(8)
    first, second = pool.begin(TOKENS), pool.begin(TOKENS)
    assert pool.num_free == 2
    pool.compute(first, 10)
    pool.compute(second, 10)
    assert first.blocks[:2] == second.blocks[:2]
    assert pool.num_free == 4
    assert pool.read(second) == TOKENS
    pool.check_integrity([first, second])


def test_the_least_recently_used_sequence_loses_its_tail_first():
    pool = Pool(6)
    for start in (0, 100):
        pool.release(computed(pool, [*range(start, start + 12)]))
    pool.begin([*range(200, 208)], scope=None)  # takes two blocks, which hold the last eight tokens of the first
    assert pool.begin([*range(5)]).num_computed == 4
    other = CachedTokens([*range(100, 113)], cache_scope="")
    pool.reuse(other)
    assert other.num_computed == 8  # one more has gone, the last of the second


@pytest.mark.parametrize(("most", "found"), [(None, 8), (9, 8), (8, 8), (7, 4), (3, 0), (0, 0)])
def test_no_more_is_taken_from_the_cache_than_may_be(most: int | None, found: int):
    pool = Pool(8)
    pool.release(computed(pool, TOKENS))
    other = CachedTokens([*TOKENS], cache_scope="")
    pool.reuse(other, most)
    assert other.num_computed == found


def test_a_shared_part_of_a_block_is_copied_on_write():
    pool = Pool(8)
    first = computed(pool, TOKENS)
    second = CachedTokens([*TOKENS, 10], cache_scope="")
    pool.share(second, first, 9)
    assert second.blocks == first.blocks
    assert pool.can_grow(second, 11)
    pool.grow(second, 11)
    pool.compute(second, 11)
    first.tokens += [20]
    pool.grow(first, 11)
    pool.compute(first, 11)
    assert (pool.read(first), pool.read(second)) == ([*TOKENS, 20], [*TOKENS, 10])
    assert first.blocks[:2] == second.blocks[:2]
    assert first.blocks[2] != second.blocks[2]


def test_a_copy_needs_a_free_block():
    pool = Pool(3)
    first, second = computed(pool, TOKENS), CachedTokens([*TOKENS], cache_scope="")
    pool.share(second, first, 9)
    assert not pool.can_grow(second, 10)
    pool.release(first)  # the block is the second one's alone now, and no copy is needed
    assert pool.can_grow(second, 10)
    pool.grow(second, 10)
    pool.check_integrity([second])


def test_a_rewind_into_a_cached_block_leaves_it_unchanged():
    pool = Pool(8)
    owner = computed(pool, [*range(13)])
    owner.num_computed, owner.tokens[6:] = 6, [70, 80, 90, 100]
    pool.grow(owner, 10)
    pool.compute(owner, 10)
    assert pool.read(owner) == [*range(6), 70, 80, 90, 100]
    assert pool.begin([*range(13)]).num_computed == 12
    assert pool.begin([*range(6), 70, 80, 90]).num_computed == 8


class Life(RuleBasedStateMachine):
    """Sequences come, share, compute, are rewound and go, in any order."""

    @initialize(num_blocks=st.integers(1, 12), num_pages=st.integers(0, 5))
    def start(self, num_blocks: int, num_pages: int) -> None:
        self.pool = Pool(num_blocks, num_pages)
        self.owners: list[CachedTokens] = []

    @rule(
        tokens=st.lists(st.integers(0, 1), min_size=1, max_size=20), scope=st.sampled_from(["", "", "", "salt", None])
    )
    def come(self, tokens: list[int], scope: str | None) -> None:
        owner = CachedTokens(tokens, cache_scope=scope)
        self.pool.reuse(owner)
        assert owner.num_computed < len(tokens)
        self._grow(owner)

    @precondition(lambda self: self.owners)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(self.owners))
        num_shared = data.draw(st.integers(0, source.num_computed))
        owner = CachedTokens([*source.tokens[:num_shared], 7], cache_scope=source.cache_scope)
        self.pool.share(owner, source, num_shared)
        self._grow(owner)

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 1), max_size=9))
    def compute(self, data: st.DataObject, tokens: list[int]) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        owner.tokens += tokens
        if self._grow(owner):
            self.pool.compute(owner, data.draw(st.integers(owner.num_computed, len(owner.tokens))))

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 1), min_size=1, max_size=9))
    def rewind(self, data: st.DataObject, tokens: list[int]) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        keep = data.draw(st.integers(0, len(owner.tokens)))
        owner.tokens[keep:] = tokens
        owner.num_computed = min(owner.num_computed, keep)
        self.pool.shrink(owner, len(owner.tokens))
        self._grow(owner)

    @precondition(lambda self: self.owners)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        self.pool.release(owner)
        self.owners.remove(owner)

    @rule()
    def forget(self) -> None:
        self.pool.forget()
        assert self.pool.num_findable == 0

    def _grow(self, owner: CachedTokens) -> bool:
        """Get the blocks that an owner needs; without room it goes."""
        has_room = self.pool.can_grow(owner, len(owner.tokens))
        if has_room:
            num_free = self.pool.num_free
            self.pool.grow(owner, len(owner.tokens))
            assert num_free >= self.pool.num_free >= 0
        else:
            self.pool.release(owner)
        others = [other for other in self.owners if other is not owner]
        self.owners = [*others, owner] if has_room else others
        return has_room

    @invariant()
    def everybody_reads_their_tokens(self) -> None:
        self.pool.forget_empty()
        self.pool.check_integrity(self.owners)
        used = Counter(block for owner in self.owners for block in owner.blocks)
        assert self.pool.num_free == self.pool.num_blocks - len(used)
        for owner in self.owners:
            assert self.pool.read(owner) == owner.tokens[: owner.num_computed]


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=35, stateful_step_count=40, derandomize=True, database=None)
