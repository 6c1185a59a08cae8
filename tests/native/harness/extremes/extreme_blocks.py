"""Calls with numbers of blocks of the KV cache; run by `extreme_numbers`."""

from collections.abc import Callable, Iterable

import numpy as np

from services.engine.decoder.native import Decoder, testing


def block_calls(decoder: Decoder) -> Iterable[tuple[str, Callable[[int], object]]]:
    """One for each number that can be said, under the name of its function and argument."""
    page = np.zeros(decoder.block_bytes, np.uint8)

    def write_block(block: int) -> None:
        """Give a block what it has."""
        decoder.read_block(block % decoder.num_blocks, page)
        decoder.write_block(block, page)

    yield "Decoder.commit_cache.first_block", lambda number: decoder.commit_cache(number, 1)
    yield "Decoder.commit_cache.num_blocks", lambda number: decoder.commit_cache(0, number)
    yield "Decoder.remove_adapter.number", decoder.remove_adapter
    yield "Decoder.copy_block.source", lambda number: decoder.copy_block(number, 0)
    yield "Decoder.copy_block.target", lambda number: decoder.copy_block(0, number)
    yield "Decoder.read_block.block", lambda number: decoder.read_block(number, page)
    yield "Decoder.write_block.block", write_block
    yield "poison.blocks", lambda number: testing.poison(decoder, [number])
