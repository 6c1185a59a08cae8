"""The tokens' log-probabilities as the clients write them, to the bit."""

import struct
from pathlib import Path


def float_bits(number: float) -> bytes:
    """Of the float of 32 bits that is nearest."""
    return struct.pack("<f", number)


def logprobs(file: Path) -> list[tuple[int, bytes]]:
    """Ids, and the bits of their log-probabilities."""
    lines = [line.split() for line in file.read_text().splitlines()]
    return [(int(token_id), float_bits(float(logprob))) for token_id, logprob in lines]
