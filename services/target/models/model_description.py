"""ModelDescription: what is told of a model, also while it is not loaded."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.target.generation.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """As it was when it was loaded last; it is the same each time, or else its files have changed."""

    name: str
    architecture: str
    context_length: int  # tokens
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    fingerprint: Fingerprint
    has_chat_template: bool
    adapted: Mapping[str, Fingerprint]  # by the names of its adapters
