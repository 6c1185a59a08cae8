"""Architecture: one class of Hugging Face checkpoints, as transformers names them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.engine.checkpoint.model_config import ModelConfig
from services.engine.files.json_fields import JsonFields


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpNames:
    """Where a folder has its layer for multi-token prediction; {n} stands for the number of the model's layers."""

    prefix: str  # of all its tensors
    layer: str  # of the tensors that layers have
    others: Mapping[str, str]  # our names of those around the layer, by theirs after the prefix
    copies: frozenset[str] = frozenset()  # of the model's tensors, after the prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """How to read the folders of an architecture; `read_config` takes config.json and the context length to serve."""

    model_type: str
    models: str  # published models of this architecture
    features: str  # its differences from Llama
    read_config: Callable[[JsonFields, int], ModelConfig]
    fields: frozenset[str]  # that read_config implements, beside those that all architectures have
    names: Mapping[str, str]  # see tensor_names.py
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of transformers, for absent fields
    norms_are_offsets: bool = False  # a norm multiplies by 1 + the stored weight
    stacked_names: Mapping[str, str] | None = None  # of folders with a tensor for all experts, [experts, out, in]
    stacks_experts: bool = False  # one tensor holds all experts, [experts, in, out], gate and up interleaved
    mtp: MtpNames | None = None
    turns_neighbours: bool = False  # interleaved rotary embeddings pair neighbouring rows of a head, not its halves


def fields(*groups: str) -> frozenset[str]:
    """Return the names in some texts, in which spaces separate them."""
    return frozenset(name for group in groups for name in group.split())
