"""Room: how much a peer must hold at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """Of what is asked at once; most engines set memory aside for it when they start."""

    sequences: int = 1
    positions: int = 1024  # tokens of each: its prompt and its answer
