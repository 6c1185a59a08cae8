"""BlockGauge: how many KV blocks a service uses, read from another process."""

import mmap
import struct
from collections.abc import Callable
from pathlib import Path

from services.engine.cache.block_manager import BlockManager

_FORMAT = "<q"


class BlockGauge:
    """One number in a file that the service and the test share; 0 where there is no file yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(bytes(struct.calcsize(_FORMAT)))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    @property
    def num_used(self) -> int:
        """Blocks that sequences own."""
        (num_used,) = struct.unpack(_FORMAT, self._memory[:])
        return num_used

    def reset(self) -> None:
        """The process is gone, and its blocks with it."""
        self._memory[:] = struct.pack(_FORMAT, 0)

    def watch(self) -> None:
        """Follow every block manager of this process from now on; a service has one."""
        for name in ("grow", "shrink", "release", "share", "reuse", "keep"):
            setattr(BlockManager, name, self._watched(getattr(BlockManager, name)))

    def _watched(self, change: Callable[..., None]) -> Callable[..., None]:
        def watched(blocks: BlockManager, *arguments: object) -> None:
            change(blocks, *arguments)
            self._memory[:] = struct.pack(_FORMAT, blocks.num_blocks - blocks.num_free)

        return watched
