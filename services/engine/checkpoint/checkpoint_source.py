"""CheckpointSource: the parts of a checkpoint, as read from a folder or from a GGUF file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.engine.checkpoint.generation_defaults import GenerationDefaults
from services.engine.checkpoint.model_config import Attention, ModelConfig
from services.engine.checkpoint.ordered_tensors import Order
from services.engine.checkpoint.stored_tensors import StoredTensors
from services.engine.checkpoint.token_rules import TokenRules
from services.engine.forced_tokens import ForcedIds


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSource:
    """Its configuration, its recommended sampling settings, and its tensors with our names of the weights in them."""

    path: Path  # of the folder, or of the file
    described_by: str  # the source of the configuration, for errors
    config: ModelConfig
    generation: GenerationDefaults
    token_rules: TokenRules
    forced_ids: ForcedIds
    eos_token_ids: tuple[int, ...]
    tensors: StoredTensors
    names: Mapping[str, tuple[str, ...]]  # our names of the weights in each tensor that the files may hold
    folder_names: Mapping[str, tuple[str, ...]]  # the same by a text folder's tensor names, which LoRA adapters use
    folder_orders: Mapping[str, Order] = field(default_factory=dict)  # of a folder's tensors with another row order
    ignored: frozenset[str]  # tensors that are redundant
    norms_are_offsets: bool  # a norm multiplies by 1 + the stored weight
    read_mtp: Callable[[], "CheckpointSource"] | None = None  # reads its layer for multi-token prediction


def shared_keys(config: ModelConfig, names: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the tensors of keys and values of layers that read those of another, which some checkpoints have."""
    shared = [
        index for index, each in enumerate(config.layers) if isinstance(each, Attention) and each.kv_layer is not None
    ]
    ours = {f"layers.{index}.{part}" for index in shared for part in ("k", "v", "k_norm")}
    return {tensor for tensor, (first, *_) in names.items() if first in ours}
