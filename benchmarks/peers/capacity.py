"""Capacity: the number of sequences that a peer must hold at once, and their length."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capacity:
    """Most engines reserve memory for this many concurrent sequences when they start."""

    sequences: int = 1
    positions: int = 1024  # tokens of each sequence, prompt and answer
