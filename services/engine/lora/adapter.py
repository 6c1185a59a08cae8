"""Adapter: one of a decoder's LoRA adapters, as requests refer to it."""

from dataclasses import dataclass

NO_ADAPTER = -1
"""The number of rows without an adapter."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """Identified by its name and the hash of its files; `number` is that of the decoder, for the rows of a batch."""

    name: str
    digest: str
    number: int

    def __str__(self) -> str:
        """Return everything but the model that an answer with it depends on; contains no \\0."""
        return f"{self.name} {self.digest}"
