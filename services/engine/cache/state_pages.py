"""StatePages: keeps the states of slots in the page store of the KV offload, each in several pages."""

import functools
from collections.abc import Callable, Iterator
from hashlib import blake2b

import numpy as np

from services.engine.cache.page_key import DIGEST_BYTES, PageKey
from services.engine.cache.page_store import Page, PageStore


class StatePages:
    """A state's pages have keys of their own, made of the key of the block at whose end it is."""

    def __init__(
        self,
        store: PageStore,
        *,
        state_bytes: int,
        read_state: Callable[[int, Page], None],
        write_state: Callable[[int, Page], None],
    ) -> None:
        """`read_state` copies a slot's states to memory of `state_bytes` bytes, `write_state` copies them back."""
        self._store = store
        self._read_state, self._write_state = read_state, write_state
        self._state_bytes, self._num_pages = state_bytes, -(-state_bytes // store.page_bytes)

    def save(self, key: PageKey, slot: int) -> None:
        """Save a slot's states, which are those at the end of a block; pages that are held already are renewed."""

        @functools.cache
        def parts() -> Page:
            read = self._new_parts()
            self._read_state(slot, read.ravel()[: self._state_bytes])
            return read

        for part, part_key in enumerate(self._keys(key)):
            self._store.put(part_key, lambda page, part=part: np.copyto(page, parts()[part]))  # type: ignore[misc]

    def has(self, key: PageKey) -> bool:
        """Return whether the store holds the states at the end of a block."""
        return all(map(self._store.has, self._keys(key)))

    def restore(self, key: PageKey, slot: int) -> bool:
        """Copy the states at the end of a block to a slot; returns False if they are gone or damaged."""
        parts = self._new_parts()
        for part_key, part in zip(self._keys(key), parts, strict=True):
            if (page := self._store.get(part_key)) is None:
                return False
            np.copyto(part, page)
        self._write_state(slot, parts.ravel()[: self._state_bytes])
        return True

    def _new_parts(self) -> Page:
        return np.zeros((self._num_pages, self._store.page_bytes), np.uint8)

    def _keys(self, key: PageKey) -> Iterator[PageKey]:
        return (PageKey(_part_digest(key.digest, part), key.token_ids) for part in range(self._num_pages))


def _part_digest(digest: bytes, part: int) -> bytes:
    return blake2b(digest + part.to_bytes(8, "little"), digest_size=DIGEST_BYTES, person=b"state").digest()
