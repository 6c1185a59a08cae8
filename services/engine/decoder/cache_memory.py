"""take_cache_memory: the KV cache's memory, taken before a sequence has to wait for it."""

from collections.abc import Generator
from weakref import ref

from services.engine.decoder.freed_memory import give_back_freed_memory
from services.engine.decoder.native import Decoder

_BLOCKS_AT_ONCE = 512  # often asking for the GIL, a thread that all others go before would hold them up


def take_cache_memory(decoder: Decoder) -> Generator[None]:
    """Take the memory of all blocks, in the order in which sequences get them, some in each step, as long as somebody
    else has the decoder: one that is unloaded meanwhile gives back what it has.

    The system clears each page when it is first written, which takes seconds for gigabytes; a pass that comes to a
    block before this does waits for that block's pages only.
    """
    return _take(ref(decoder), decoder.num_blocks)


def _take(found: "ref[Decoder]", num_blocks: int) -> Generator[None]:
    for first in range(0, num_blocks, _BLOCKS_AT_ONCE):
        if (decoder := found()) is None:  # and this was the last to have it
            give_back_freed_memory()
            return
        decoder.commit_cache(first, min(_BLOCKS_AT_ONCE, num_blocks - first))
        del decoder
        yield
