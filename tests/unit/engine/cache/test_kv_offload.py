"""The offload: evicted blocks are found again after the same tokens, in the same scope, as long as they are kept."""

import pytest

from tests.unit.engine.cache.test_prefix_cache import CachedTokens, Pool, computed

TOKENS = [*range(10)]  # two full blocks and a begun one


def fill(pool: Pool) -> None:
    """Fill every block with tokens outside the cache, and free all."""
    pool.release(pool.begin([*range(100, 100 + 4 * pool.num_blocks)], scope=None))


def asked_again(pool: Pool, tokens: list[int], *, scope: str = "") -> CachedTokens:
    owner = CachedTokens([*tokens], cache_scope=scope)
    pool.reuse(owner)
    assert pool.read(owner) == tokens[: owner.num_computed]
    pool.check_integrity([owner])
    return owner


def test_evicted_blocks_come_back_into_the_prefix_cache() -> None:
    pool = Pool(3, num_pages=4)
    pool.release(computed(pool, TOKENS))
    fill(pool)
    assert pool.num_findable == 0
    owner = asked_again(pool, TOKENS)
    assert (owner.num_computed, pool.offload.num_stored, pool.offload.num_found) == (8, 2, 2)
    pool.release(owner)
    assert asked_again(pool, TOKENS).num_computed == 8
    assert pool.offload.num_found == 2


def test_a_stored_block_is_not_copied_again() -> None:
    pool = Pool(3, num_pages=4)
    pool.release(computed(pool, TOKENS))
    for _ in range(3):
        fill(pool)
        pool.release(asked_again(pool, TOKENS))
    assert (pool.offload.num_stored, pool.offload.num_found, pool.offload.store.num_pages) == (2, 6, 2)


@pytest.mark.parametrize(("tokens", "scope"), [(TOKENS, "other"), ([9, *TOKENS[1:]], ""), (TOKENS[4:], "")])
def test_other_scopes_and_prefixes_find_nothing(tokens: list[int], scope: str) -> None:
    pool = Pool(3, num_pages=4)
    pool.release(computed(pool, TOKENS))
    fill(pool)
    assert asked_again(pool, tokens, scope=scope).num_computed == 0
    assert (pool.offload.num_found, pool.offload.num_missed) == (0, 2)  # before it was computed, and now


def test_chains_lose_their_tails_first() -> None:
    pool = Pool(4, num_pages=2)
    pool.release(computed(pool, [*range(13)]))
    fill(pool)
    assert asked_again(pool, [*range(13)]).num_computed == 8


def test_a_page_displaced_by_its_own_block_is_not_brought_back() -> None:
    """One page and one block: to make room for the wanted one, its own page is taken."""
    pool = Pool(1, num_pages=1)
    pool.release(computed(pool, [1, 2, 3, 4]))
    pool.release(computed(pool, [5, 6, 7, 8]))
    owner = asked_again(pool, [1, 2, 3, 4, 5])
    assert (owner.num_computed, pool.num_free) == (0, 1)
    assert (pool.offload.num_found, pool.offload.num_missed) == (0, 1)
    pool.check_integrity([])


def test_without_a_free_block_nothing_is_asked_for() -> None:
    pool = Pool(3, num_pages=4)
    pool.release(computed(pool, TOKENS))
    owner = computed(pool, [*range(100, 112)], scope=None)
    num_missed = pool.offload.num_missed
    assert asked_again_beside(pool, owner).num_computed == 0
    assert pool.offload.num_missed == num_missed


def asked_again_beside(pool: Pool, owner: CachedTokens) -> CachedTokens:
    other = CachedTokens([*TOKENS], cache_scope="")
    pool.reuse(other)
    pool.check_integrity([owner, other])
    return other


def test_forgotten_blocks_do_not_come_back() -> None:
    pool = Pool(3, num_pages=4)
    pool.release(computed(pool, TOKENS))
    fill(pool)
    owner = computed(pool, [50, 51, 52, 53, 54])
    assert pool.forget() == 3
    assert asked_again_beside(pool, owner).num_computed == 0
    pool.keep(owner, 5)  # as their owner may
    pool.release(owner)
    fill(pool)
    assert asked_again(pool, [50, 51, 52, 53, 54]).num_computed == 4
