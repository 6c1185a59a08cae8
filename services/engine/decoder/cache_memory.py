"""take_cache_memory: commits the KV cache's memory before a sequence has to wait for it."""

from collections.abc import Generator
from weakref import ref

from services.engine.decoder.freed_memory import give_back_freed_memory
from services.engine.decoder.native import Decoder

_BLOCKS_AT_ONCE = 512  # a low-priority thread that takes the GIL often would slow down the others


def take_cache_memory(decoder: Decoder) -> Generator[None]:
    """Commit the memory of all blocks, in the order in which sequences get them, some blocks in each step.

    The system clears each page when it is first written, which takes seconds for gigabytes. A pass that writes a block
    first waits only for that block's pages. It stops if the decoder is unloaded meanwhile, and releases its memory.
    """
    return _take(ref(decoder), decoder.num_blocks)


def _take(found: "ref[Decoder]", num_blocks: int) -> Generator[None]:
    for first in range(0, num_blocks, _BLOCKS_AT_ONCE):
        if (decoder := found()) is None:  # this held the last reference
            give_back_freed_memory()
            return
        decoder.commit_cache(first, min(_BLOCKS_AT_ONCE, num_blocks - first))
        del decoder
        yield
