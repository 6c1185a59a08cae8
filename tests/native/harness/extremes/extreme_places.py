"""Where rows are in a cache, with extreme numbers; a part of `extreme_numbers`."""

from typing import Any

import numpy as np

PLACES = ("positions", "sequences", "block_tables")


def places(positions: int = 0, sequences: int = 0, block_tables: int = 0) -> tuple[Any, Any, Any]:
    """Those of one row."""
    return (
        np.array([wrapped(positions)], np.int32),
        np.array([wrapped(sequences)], np.int32),
        np.array([[wrapped(block_tables)] * 2], np.int32),
    )


def wrapped(number: int) -> int:
    """What an array of int32 holds of it."""
    return (number + 2**31) % 2**32 - 2**31
