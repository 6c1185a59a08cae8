"""BlockManager: the KV cache as a pool of blocks; sequences own blocks by their block tables, as in PagedAttention."""

from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq

from services.engine.cache.cache_journal import CacheJournal
from services.engine.cache.cached_tokens import CachedTokens, KeptState
from services.engine.cache.kv_offload import KvOffload
from services.engine.cache.page_key import Key
from services.engine.cache.prefix_cache import PrefixCache
from services.engine.cache.state_checkpoints import StateCheckpoints

Lengths = Seq[tuple[CachedTokens, int]]  # sequences, and the number of tokens for which each is to have blocks

_FAR_APART = 1024  # tokens between two states that are kept of a long prompt


class BlockManager:
    """A pool of equal blocks of KV cache; a sequence's blocks hold its tokens in order.

    Several sequences may own a block. A block with several owners, or in the prefix cache, is not written any more: a
    sequence that has to write into it gets a copy (copy-on-write). Blocks of ended sequences stay findable until no
    empty block is left: then the least recently used one is evicted.
    """

    def __init__(
        self,
        *,
        num_blocks: int,
        block_size: int,
        copy_block: Callable[[int, int], None] | None = None,
        keeps_prefixes: bool = True,
        offload: KvOffload | None = None,
        num_slots: int = 0,
        checkpoints: StateCheckpoints | None = None,
    ) -> None:
        """`copy_block` copies a block's keys and values to another; it is needed only for sharing and rewinding. With
        an `offload`, evicted blocks are saved there and restored when they are found again. Where layers carry states
        there are slots, one for each text that has blocks, and only blocks up to one of the `checkpoints` are found.
        """
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._copy_block = copy_block
        self._keeps_prefixes = keeps_prefixes
        self._offload = offload
        self._cache = PrefixCache()
        self._num_owners = [0] * num_blocks
        self._empty = list(range(num_blocks - 1, -1, -1))
        self.has_states = num_slots > 0
        self._slots = [*range(num_slots)]
        self._checkpoints = checkpoints or StateCheckpoints()
        self.num_stateless = 0  # tokens found in the prefix cache in vain: no state was kept after them

    def report_to(self, journal: CacheJournal) -> None:
        """Note in this journal what the prefix cache and the offload hold from now on; both must be empty."""
        self._cache.journal = journal
        if self._offload is not None:
            self._offload.store.report_to(journal)

    @property
    def num_free(self) -> int:
        """Blocks that no sequence owns."""
        return len(self._empty) + self._cache.num_idle

    @property
    def num_by_state(self) -> dict[str, int]:
        """The number of blocks that are used by sequences, only cached for later ones, and empty."""
        num_empty, num_cached = len(self._empty), self._cache.num_idle
        return {"used": self.num_blocks - num_empty - num_cached, "cached": num_cached, "empty": num_empty}

    @property
    def num_findable(self) -> int:
        """The number of blocks in the prefix cache, owned or not."""
        return len(self._cache)

    @property
    def empty(self) -> list[int]:
        """The free blocks that are not in the prefix cache."""
        return self._empty.copy()

    @property
    def empty_slots(self) -> list[int]:
        """The slots of states that no text has, and no checkpoint."""
        return [*self._slots, *self._checkpoints.empty]

    def blocks_for(self, num_tokens: int) -> int:
        """Return how many blocks hold this many tokens."""
        return -(-num_tokens // self.block_size)

    def num_available(self, text: CachedTokens) -> int:
        """Return how many further blocks a sequence can get, less one for a copy if it may not write its last block."""
        return self.num_free - (not self._may_write_next(text))

    def can_grow(self, text: CachedTokens, num_tokens: int) -> bool:
        """Return whether the sequence's blocks can grow to `num_tokens` without preemption of another sequence."""
        return self._num_missing(text, num_tokens) <= self.num_free

    def can_grow_together(self, lengths: Lengths) -> bool:
        """Return whether all of the sequences can grow to their numbers of tokens at the same time."""
        return self._num_missing_together(lengths) <= self.num_free

    def grow_together(self, lengths: Lengths) -> bool:
        """Grow all of the sequences to their numbers of tokens, which lie beyond the computed ones, as `grow` does;
        return False, and change nothing, if there are too few free blocks.
        """
        num_missing = self._num_missing_together(lengths)
        if num_missing > self.num_free:
            return False
        if num_missing or self.has_states:  # else each has its blocks, and may write the next one
            for text, num_tokens in lengths:
                self.grow(text, num_tokens)
        return True

    def _num_missing_together(self, lengths: Lengths) -> int:
        return sum([self._num_missing(text, num_tokens) for text, num_tokens in lengths])

    def _num_missing(self, text: CachedTokens, num_tokens: int) -> int:
        """Return how many free blocks growing to `num_tokens` takes."""
        num_kept = len(text.blocks) if self._may_write_next(text) else text.num_computed // self.block_size
        return max(0, self.blocks_for(num_tokens) - num_kept)

    def has_slot(self, text: CachedTokens) -> bool:
        """Return whether there is a slot for the text's state, where layers carry states."""
        return not self.has_states or text.slot is not None or bool(self._slots)

    def grow(self, text: CachedTokens, num_tokens: int) -> None:
        """Give the sequence blocks for its first `num_tokens` tokens; it may write those after the computed ones.

        Call it only if `can_grow` and `has_slot`.
        """
        if not self._may_write_next(text):
            self._make_own(text)
        if self.has_states and text.slot is None:
            self._take_slot(text)
        while len(text.blocks) < self.blocks_for(num_tokens):
            text.blocks.append(self._take())

    def plan_checkpoint(self, text: CachedTokens, num_certain: int, *, is_prompt: bool) -> None:
        """Plan which state the next pass keeps, whose next `num_certain` rows cannot be rejected.

        It is the one at the last full block of a prompt, or at multiples of `_FAR_APART` before; in an answer it is the
        one at the last full block, which takes the place of the one before.
        """
        if not (self.has_states and self._is_cached(text)):
            return
        self._discard_kept(text)
        end = text.num_computed + num_certain
        last = len(text.tokens) // self.block_size * self.block_size
        position = last if last <= end else end // _FAR_APART * _FAR_APART
        if not position or position < text.state_position or self._block_before(text, position) in self._checkpoints:
            return
        if (slot := self._checkpoints.take()) is not None:
            text.kept = KeptState(slot, position, lasts=is_prompt)

    def shrink(self, text: CachedTokens, num_tokens: int) -> None:
        """Take back the blocks beyond the sequence's first `num_tokens` tokens."""
        self._cut(text, self.blocks_for(num_tokens))

    def pin(self, text: CachedTokens) -> None:
        """Keep the computed blocks of a text that has ended, and the state at their end, until they are released."""
        self.shrink(text, text.num_computed)
        if text.slot is not None:
            self._checkpoints.pin(text.blocks[-1], text.slot)
            self._give_slot_back(text)
        text.is_pinned = True

    def release(self, text: CachedTokens) -> None:
        """Take back all blocks; the sequence then has no computed tokens."""
        if text.is_pinned and text.blocks:
            self._checkpoints.unpin(text.blocks[-1])
        self._cut(text, 0)
        text.is_pinned = False
        text.num_computed = 0

    def share(self, text: CachedTokens, other: CachedTokens, num_tokens: int) -> None:
        """Let a sequence without blocks share those of its first tokens with `other`, which has computed the same."""
        for block in other.blocks[: self.blocks_for(num_tokens)]:
            self._own(block)
            text.blocks.append(block)
        text.num_computed = num_tokens

    def reuse(self, text: CachedTokens, most: int | None = None) -> None:
        """Give a sequence the cached full blocks of its next tokens, up to its first `most` tokens.

        `most` is at most, and by default, all tokens but the last: that one must be computed for its logits. Where
        layers carry states, the blocks end at a checkpoint, and a text that has a state keeps it.
        """
        if text.slot is not None:
            return
        self._find_chain(text, len(text.tokens) - 1 if most is None else most)
        if self.has_states:
            self._cut_to_checkpoint(text)

    def _find_chain(self, text: CachedTokens, most: int) -> None:
        size = self.block_size
        is_cached = self._is_cached(text) and all(block in self._cache for block in text.blocks[-1:])
        while is_cached and text.num_computed == len(text.blocks) * size <= most - size:
            key = self._key(text, len(text.blocks))
            block = self._cache.find(key)
            if block is None and (block := self._bring_back(key)) is None:
                return
            self._own(block)
            text.blocks.append(block)
            text.num_computed += size

    def _cut_to_checkpoint(self, text: CachedTokens) -> None:
        """Take back the blocks after the last checkpoint in them, and those whose tokens have been replaced."""
        num_found = text.num_computed
        self._cut(text, num_found // self.block_size)
        while text.blocks and not self._has_state(text.blocks[-1]):
            self._cut(text, len(text.blocks) - 1)
        text.num_computed = len(text.blocks) * self.block_size
        self.num_stateless += num_found - text.num_computed

    def _has_state(self, block: int) -> bool:
        """Return whether there is a checkpoint at the end of a block; it may come back from the offload."""
        if block in self._checkpoints:
            return True
        if self._offload is None or not self._offload.has_state(block) or (slot := self._checkpoints.take()) is None:
            return False
        if self._offload.restore_state(block, slot):
            self._checkpoints.add(block, slot)
        else:
            self._checkpoints.give_back(slot)
        return block in self._checkpoints

    def restart_if_rewound(self, text: CachedTokens) -> None:
        """Begin a text anew whose state has seen tokens that are gone, from its last checkpoint."""
        if text.slot is None or text.num_computed >= text.state_position:
            return
        self.release(text)
        self.reuse(text)
        self._take_slot(text)

    def _take_slot(self, text: CachedTokens) -> None:
        """Give a text a slot, with the state at the end of the blocks that it has found."""
        text.slot, text.state_position = self._slots.pop(), text.num_computed
        if text.blocks:
            self._checkpoints.restore(text.blocks[-1], text.slot)

    def keep(self, text: CachedTokens, num_tokens: int) -> None:
        """Add the full blocks of the sequence's first tokens, which are computed and committed, to the prefix cache.

        A block whose tokens are cached already is exchanged for the cached one and released. If other texts own it too,
        nothing is cached from there on: blocks that they own must not follow one that they do not own.
        """
        if not self._is_cached(text):
            return
        first = end = num_tokens // self.block_size
        while first > 0 and text.blocks[first - 1] not in self._cache:
            first -= 1
        for index in range(first, end):
            block, key = text.blocks[index], self._key(text, index)
            if (same := self._cache.find(key)) is None:
                self._add(key, block)
            elif self._num_owners[block] > 1:
                return
            else:
                self._own(same)
                if self.has_states:
                    self._checkpoints.move(block, same)
                self._give_up(block)
                text.blocks[index] = same
        if text.kept is not None and text.kept.position <= num_tokens:
            self._add_checkpoint(text, text.kept)

    def _add_checkpoint(self, text: CachedTokens, kept: KeptState) -> None:
        block = self._block_before(text, kept.position)
        if block in self._checkpoints:  # another text's, which has computed the same
            self._discard_kept(text)
            return
        self._checkpoints.add(block, kept.slot)
        if text.last_kept is not None:
            self._checkpoints.drop(text.last_kept)
        text.kept, text.last_kept = None, None if kept.lasts else block

    def _block_before(self, text: CachedTokens, position: int) -> int:
        return text.blocks[position // self.block_size - 1]

    def _give_slot_back(self, text: CachedTokens) -> None:
        assert text.slot is not None
        self._slots.append(text.slot)
        text.slot = text.last_kept = None
        self._discard_kept(text)

    def _discard_kept(self, text: CachedTokens) -> None:
        if text.kept is not None:
            self._checkpoints.give_back(text.kept.slot)
            text.kept = None

    def forget(self) -> int:
        """Empty the prefix cache and the offload, and return how many blocks both held.

        Sequences keep their blocks, which can be found again after the next `keep`.
        """
        count = len(self._cache)
        self._empty += self._cache.clear()
        self._checkpoints.clear()
        if self._offload is not None:
            count += self._offload.forget()
        return count

    def check_integrity(self, texts: Iterable[CachedTokens]) -> None:
        """Raise AssertionError unless every block is free, or owned by as many texts as were counted; slots too."""
        texts = [*texts]
        owners = Counter(block for text in texts for block in text.blocks)
        free = [block for block in range(self.num_blocks) if not owners[block]]
        is_counted = all(owners[block] == count for block, count in enumerate(self._num_owners))
        if not is_counted or sorted([*self._empty, *self._cache.idle]) != free:
            raise AssertionError(f"KV blocks leaked or shared: {len(owners)} owned, {self.num_free} free")
        self._cache.check_integrity()
        self._check_slots(texts)
        if self._offload is not None:
            self._offload.check_integrity({block for block in range(self.num_blocks) if block in self._cache})

    def _check_slots(self, texts: Iterable[CachedTokens]) -> None:
        used = [slot for text in texts for slot in (text.slot, text.kept and text.kept.slot) if slot is not None]
        held = [*self._checkpoints.empty, *self._checkpoints.slots]
        if sorted([*used, *self._slots, *held]) != list(range(len(used) + len(self._slots) + len(held))):
            raise AssertionError(f"slots of states leaked or shared: {used} in use, {self._slots} free, {held} kept")
        assert all(block not in self._checkpoints for block in self._empty), "states are kept at empty blocks' ends"

    def _is_cached(self, text: CachedTokens) -> bool:
        return self._keeps_prefixes and text.cache_scope is not None

    def _key(self, text: CachedTokens, index: int) -> Key:
        """Return the key of a sequence's block; the blocks before it must be cached."""
        start = index * self.block_size
        assert text.cache_scope is not None
        prefix = text.blocks[index - 1] if index else text.cache_scope
        return prefix, tuple(text.tokens[start : start + self.block_size])

    def _may_write(self, block: int) -> bool:
        return self._num_owners[block] == 1 and block not in self._cache

    def _may_write_next(self, text: CachedTokens) -> bool:
        """Return whether the sequence may write its next rows into its blocks."""
        index = text.num_computed // self.block_size
        return index >= len(text.blocks) or self._may_write(text.blocks[index])  # and so all after it

    def _make_own(self, text: CachedTokens) -> None:
        """Take back the blocks after the computed tokens, and replace a partly computed block by a copy."""
        self._cut(text, self.blocks_for(text.num_computed))
        if text.num_computed % self.block_size:
            assert self._copy_block is not None
            block, copy = text.blocks.pop(), self._take()
            self._copy_block(block, copy)
            text.blocks.append(copy)
            self._give_up(block)

    def _cut(self, text: CachedTokens, num_blocks: int) -> None:
        while len(text.blocks) > num_blocks:
            self._give_up(text.blocks.pop())
        if text.slot is not None and not text.blocks:
            self._give_slot_back(text)

    def _take(self) -> int:
        block = self._empty.pop() if self._empty else self._evict()
        self._num_owners[block] = 1
        return block

    def _evict(self) -> int:
        block = self._cache.evict()
        self._checkpoints.evict(block)
        if self._offload is not None:
            self._offload.save(block)
        return block

    def _add(self, key: Key, block: int) -> None:
        """Add an owned block to the prefix cache."""
        self._cache.add(key, block)
        if self._offload is not None:
            self._offload.note(block, key)

    def _bring_back(self, key: Key) -> int | None:
        """Restore an evicted block from the offload to a free block, which is cached again; None if that fails."""
        if self._offload is None or not self.num_free or not self._offload.has(key):
            return None
        block = self._take()  # before the read: the eviction that it causes may overwrite the wanted page
        if is_back := self._offload.restore(key, block):
            self._add(key, block)
        self._give_up(block)
        return block if is_back else None

    def _own(self, block: int) -> None:
        if self._num_owners[block] == 0:
            self._cache.take_up(block)
        self._num_owners[block] += 1

    def _give_up(self, block: int) -> None:
        self._num_owners[block] -= 1
        if self._num_owners[block] == 0:
            if block in self._cache:
                self._cache.give_up(block)
            else:
                if self.has_states:
                    self._checkpoints.drop(block)
                self._empty.append(block)
