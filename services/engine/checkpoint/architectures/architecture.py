"""Architecture: one class of Hugging Face checkpoints, as transformers names them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.engine.checkpoint.model_config import ModelConfig
from services.engine.files.json_fields import JsonFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """How its folders are read; `read_config` takes config.json and the context that is served."""

    model_type: str
    models: str  # published ones
    features: str  # by which it differs from Llama
    read_config: Callable[[JsonFields, int], ModelConfig]
    fields: frozenset[str]  # that read_config carries out, beside those that all architectures have
    names: Mapping[str, str]  # see tensor_names.py
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of transformers, where config.json has no such field
    norms_are_offsets: bool = False  # a norm multiplies by 1 + the stored weight
    stacks_experts: bool = False  # a tensor holds those of all, [experts, in, out], gate and up by turns
    turns_neighbours: bool = False  # rotary embeddings pair neighbouring rows of a head, not its halves
    foreign_tokens: frozenset[str] = frozenset()  # of the tokenizer, that the embedding need not have


def fields(*groups: str) -> frozenset[str]:
    """Return the names in some texts, where spaces separate them."""
    return frozenset(name for group in groups for name in group.split())
