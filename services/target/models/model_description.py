"""ModelDescription: the public facts of a model, also while it is not loaded."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.target.generation.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """The facts as of the last loading; they only change if the model's files do."""

    name: str
    architecture: str
    context_length: int  # tokens
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    fingerprint: Fingerprint
    has_chat_template: bool
    adapted: Mapping[str, Fingerprint]  # by the names of its adapters
