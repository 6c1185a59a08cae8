"""StateCheckpoints: states at the ends of cached blocks, from which later texts with the same prefix go on."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator


class StateCheckpoints:
    """A pool of slots. The least recently used checkpoint is evicted when a slot is needed and none is free, but none
    that is pinned.
    """

    def __init__(
        self,
        slots: Iterable[int] = (),
        copy_state: Callable[[int, int], None] = lambda *_: None,
        save: Callable[[int, int], None] | None = None,
    ) -> None:
        """`copy_state` copies a slot's states to another slot; it is needed only where there are slots. With an
        offload, `save` gets the block and the slot of each checkpoint that is evicted.
        """
        self._copy_state, self._save = copy_state, save
        self._empty = [*slots]
        self._slots: dict[int, int] = {}  # by the block at whose end they are; the least recently used one first
        self._pins: Counter[int] = Counter()  # by that block

    @property
    def empty(self) -> list[int]:
        """The slots without a checkpoint."""
        return [*self._empty]

    @property
    def slots(self) -> list[int]:
        """The slots with a checkpoint."""
        return [*self._slots.values()]

    def take(self) -> int | None:
        """Return a slot for a new checkpoint; None if all are pinned or wait for their pass."""
        if not self._empty and (oldest := next(self._unpinned(), None)) is not None:
            self.evict(oldest)
        return self._empty.pop() if self._empty else None

    def give_back(self, slot: int) -> None:
        """Take back a slot whose checkpoint is not wanted after all."""
        self._empty.append(slot)

    def add(self, block: int, slot: int) -> None:
        """Keep a slot's states as those at the end of a block, which has none."""
        self._slots[block] = slot

    def evict(self, block: int) -> None:
        """Save the checkpoint at the end of a block, if there is one, and forget it."""
        if (slot := self._slots.get(block)) is not None:
            if self._save is not None:
                self._save(block, slot)
            self.drop(block)

    def drop(self, block: int) -> None:
        """Forget the checkpoint at the end of a block, if there is one."""
        if (slot := self._slots.pop(block, None)) is not None:
            self.give_back(slot)

    def move(self, block: int, other: int) -> None:
        """Let another block with the same tokens take the place of a block, whose checkpoint may be pinned."""
        if (slot := self._slots.pop(block, None)) is not None:
            if other in self._slots:
                self.give_back(slot)
            else:
                self.add(other, slot)
            if pins := self._pins.pop(block, 0):
                self._pins[other] += pins

    def pin(self, block: int, slot: int) -> None:
        """Keep the states at the end of a block, which are those of `slot`, until they are unpinned as often.

        Nothing is kept if there is neither a checkpoint nor room for one.
        """
        if block not in self and (free := self.take()) is not None:
            self._copy_state(slot, free)
            self.add(block, free)
        if block in self:
            self._pins[block] += 1

    def unpin(self, block: int) -> None:
        """Let the checkpoint at the end of a block, if it is pinned, be evicted again."""
        self._pins -= Counter([block])

    def clear(self) -> None:
        """Forget all checkpoints that are not pinned."""
        for block in [*self._unpinned()]:
            self.drop(block)

    def _unpinned(self) -> Iterator[int]:
        return (block for block in self._slots if not self._pins[block])

    def __contains__(self, block: int) -> bool:
        """Return whether there is a checkpoint at the end of a block."""
        return block in self._slots

    def restore(self, block: int, slot: int) -> None:
        """Copy the checkpoint at the end of a block to a text's slot."""
        source = self._slots[block] = self._slots.pop(block)
        self._copy_state(source, slot)
