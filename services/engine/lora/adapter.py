"""Adapter: one of a decoder's adapters, as requests carry it."""

from dataclasses import dataclass

NO_ADAPTER = -1
"""What rows have in place of an adapter's number."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """Known by its name and the hash of its files; `number` is what rows in a batch have that ask for it."""

    name: str
    digest: str
    number: int

    def __str__(self) -> str:
        """All that an answer by it depends on beside the model; holds no \\0."""
        return f"{self.name} {self.digest}"
