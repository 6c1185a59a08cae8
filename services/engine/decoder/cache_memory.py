"""take_cache_memory: the KV cache's memory, taken before a sequence has to wait for it."""

from services.engine.decoder.native import Decoder

_BLOCKS_AT_ONCE = 64


def take_cache_memory(decoder: Decoder) -> None:
    """Take the memory of all blocks, in the order in which sequences get them.

    The system clears each page when it is first written, which takes seconds for gigabytes; a pass that comes to a
    block before this does waits for that block's pages only.
    """
    for first in range(0, decoder.num_blocks, _BLOCKS_AT_ONCE):
        decoder.commit_cache(first, min(_BLOCKS_AT_ONCE, decoder.num_blocks - first))
