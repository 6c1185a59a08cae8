"""CacheIndex: what a subscriber knows of a prefix cache from its events alone."""

from collections.abc import Iterable

from services.engine.cache.block_manager import BlockManager
from services.engine.cache.cache_journal import CacheEvent, Cleared, Medium, Removed, Stored

Text = tuple[str, tuple[int, ...]]
"""A scope, and all tokens up to the end of a block."""


class CacheIndex:
    """Takes events in their order; one that cannot be is an error."""

    def __init__(self) -> None:
        self.copies: dict[tuple[int, Medium], Stored] = {}

    def apply(self, events: Iterable[CacheEvent]) -> None:
        for event in events:
            match event:
                case Stored():
                    assert (event.hash, event.medium) not in self.copies, "stored twice"
                    self.copies[event.hash, event.medium] = event
                    if event.medium is Medium.DEVICE:
                        self._text(event)  # all blocks before it are known
                case Removed():
                    del self.copies[event.hash, event.medium]
                case Cleared():
                    self.copies.clear()

    def texts(self) -> set[Text]:
        """All that can be found on the device."""
        return {self._text(each) for (_, medium), each in self.copies.items() if medium is Medium.DEVICE}

    def hashes(self, medium: Medium) -> set[int]:
        """The hashes of all blocks in a medium."""
        return {hash_ for hash_, each in self.copies if each is medium}

    def _text(self, stored: Stored) -> Text:
        if stored.parent is None:
            return stored.scope, stored.token_ids
        scope, before = self._text(self.copies[stored.parent, Medium.DEVICE])
        assert scope == stored.scope
        return scope, before + stored.token_ids


def cached_texts(blocks: BlockManager) -> set[Text]:
    """What can be found, by the prefix cache itself; for the thread that changes it."""
    keys = blocks._cache._keys

    def text(block: int) -> Text:
        prefix, token_ids = keys[block]
        if isinstance(prefix, str):
            return prefix, token_ids
        scope, before = text(prefix)
        return scope, before + token_ids

    return {text(block) for block in keys}
