"""take_cache_memory: the KV cache's memory, taken before a sequence has to wait for it."""

from collections.abc import Generator

from services.engine.decoder.native import Decoder

_BLOCKS_AT_ONCE = 512  # often asking for the GIL, a thread that all others go before would hold them up


def take_cache_memory(decoder: Decoder) -> Generator[None]:
    """Take the memory of all blocks, in the order in which sequences get them, some in each step.

    The system clears each page when it is first written, which takes seconds for gigabytes; a pass that comes to a
    block before this does waits for that block's pages only.
    """
    for first in range(0, decoder.num_blocks, _BLOCKS_AT_ONCE):
        decoder.commit_cache(first, min(_BLOCKS_AT_ONCE, decoder.num_blocks - first))
        yield
