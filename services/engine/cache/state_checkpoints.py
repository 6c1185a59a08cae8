"""StateCheckpoints: states at the ends of cached blocks, from which later texts with the same prefix go on."""

from collections.abc import Callable, Iterable


class StateCheckpoints:
    """A pool of slots. The least recently used checkpoint is evicted when a slot is needed and none is free."""

    def __init__(self, slots: Iterable[int] = (), copy_state: Callable[[int, int], None] = lambda *_: None) -> None:
        """`copy_state` copies a slot's states to another slot; it is needed only where there are slots."""
        self._copy_state = copy_state
        self._empty = [*slots]
        self._slots: dict[int, int] = {}  # by the block at whose end they are; the least recently used one first

    @property
    def empty(self) -> list[int]:
        """The slots without a checkpoint."""
        return [*self._empty]

    @property
    def slots(self) -> list[int]:
        """The slots with a checkpoint."""
        return [*self._slots.values()]

    def take(self) -> int | None:
        """Return a slot for a new checkpoint; None if all wait for their pass."""
        if not self._empty and self._slots:
            self.drop(next(iter(self._slots)))
        return self._empty.pop() if self._empty else None

    def give_back(self, slot: int) -> None:
        """Take back a slot whose checkpoint is not wanted after all."""
        self._empty.append(slot)

    def add(self, block: int, slot: int) -> None:
        """Keep a slot's states as those at the end of a block, which has none."""
        self._slots[block] = slot

    def drop(self, block: int) -> None:
        """Forget the checkpoint at the end of a block, if there is one."""
        if (slot := self._slots.pop(block, None)) is not None:
            self.give_back(slot)

    def clear(self) -> None:
        """Forget all checkpoints."""
        for block in [*self._slots]:
            self.drop(block)

    def __contains__(self, block: int) -> bool:
        """Return whether there is a checkpoint at the end of a block."""
        return block in self._slots

    def restore(self, block: int, slot: int) -> None:
        """Copy the checkpoint at the end of a block to a text's slot."""
        source = self._slots[block] = self._slots.pop(block)
        self._copy_state(source, slot)
