"""The index of a page store: as many pages as there are slots, the oldest goes first."""

from services.engine.cache.page_index import PageIndex
from services.engine.cache.page_key import PageKey, next_digest, scope_digest

KEYS = [PageKey.after(scope_digest(""), (token, token + 1)) for token in range(6)]


def held(index: PageIndex) -> list[int]:
    return [number for number, key in enumerate(KEYS) if index.find(key) is not None]


def test_the_page_that_was_put_longest_ago_goes_for_another() -> None:
    index = PageIndex(3)
    slots = [index.add(key) for key in KEYS[:3]]
    assert sorted(slots) == [0, 1, 2]
    assert index.renew(KEYS[0])
    assert index.add(KEYS[3]) == slots[1]
    assert held(index) == [0, 2, 3]
    assert not index.renew(KEYS[1])
    assert len(index) == 3


def test_slots_of_removed_pages_are_used_again() -> None:
    index = PageIndex(2)
    slots = {index.add(key) for key in KEYS[:2]}
    index.remove(KEYS[0])
    assert held(index) == [1]
    index.clear()
    assert (held(index), len(index)) == ([], 0)
    assert {index.add(key) for key in KEYS[2:4]} == slots


def test_pages_that_were_there_go_first_in_their_order() -> None:
    index = PageIndex(3, {KEYS[4]: 2, KEYS[5]: 0})
    assert (index.find(KEYS[4]), index.find(KEYS[5])) == (2, 0)
    assert [index.add(key) for key in KEYS[:3]] == [1, 2, 0]


def test_keys_distinguish_scopes_and_prefixes() -> None:
    behind = [next_digest(scope_digest(scope), ids) for scope in ("", "a") for ids in ((1, 2), (2, 1), (258, 0))]
    keys = {PageKey.after(before, (7, 8)).digest for before in behind}
    assert len(keys) == len(behind)
    assert PageKey.after(behind[0], (7, 8)) == PageKey.after(next_digest(scope_digest(""), [1, 2]), (7, 8))


def test_token_ids_are_compared_beyond_their_digests() -> None:
    index = PageIndex(1)
    index.add(KEYS[0])
    assert index.find(KEYS[0]._replace(token_ids=(9, 9))) is None
