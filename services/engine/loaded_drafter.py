"""LoadedDrafter: an attached drafter's weights on its target's device."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from services.engine.checkpoint.attached.assistant import load_assistant
from services.engine.checkpoint.attached.attached_drafter import (
    AttachedDrafter,
    find_own_drafter,
    load_drafter,
    warn_of_own_layer,
)
from services.engine.checkpoint.attached.drafter_kind import is_assistant_folder
from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.model_config import FeatureBlock, ModelConfig
from services.engine.config import ConfigError, EngineConfig
from services.engine.decoder.model_loader import fill_decoder, fill_shared, new_decoder
from services.engine.decoder.native import Decoder, Device, DeviceError
from services.engine.decoder.weight_choice import STORED
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.head_shortlist import HeadShortlist
from services.engine.hub.fetch import fetch

_SHORTLIST_SIZE = 32_768  # tokens among which a drafter predicts, where the vocabulary is more than twice as large


def find_drafter(config: EngineConfig, target: Checkpoint) -> AttachedDrafter | None:
    """Return the configured drafter of a model, its configuration, names and shapes checked; None if it has none.

    Raises CheckpointError and HubError.
    """
    if config.head is None:
        return find_own_drafter(target) if config.uses_mtp else None
    head = fetch(config.head)
    return replace(read_drafter(head.path, target.config), name=head.name)


def read_drafter(folder: Path, target: ModelConfig) -> AttachedDrafter:
    """Read and check a folder's drafter of any kind for a target; raises CheckpointError."""
    return (load_assistant if is_assistant_folder(folder) else load_drafter)(folder, target)


def check_host(
    config: EngineConfig, model: ModelConfig, weights: str, drafter: AttachedDrafter | None
) -> AttachedDrafter | None:
    """Check that a host's memory holds a model with its drafter; returns the drafter.

    A model's own layer is left out if there is memory for the model alone. Raises ConfigError.
    """
    try:
        config.check_host_memory(model, weights, drafter.checkpoint.config if drafter else None)
    except ConfigError as error:
        if drafter is None or config.head is not None:
            raise
        config.check_host_memory(model, weights)
        warn_of_own_layer(error)
        return None
    return drafter


def attach(
    config: EngineConfig,
    drafter: AttachedDrafter | None,
    checkpoint: Checkpoint,
    target: Decoder,
    device: Device,
    weights: str,
    special_ids: Iterable[int],
) -> "LoadedDrafter | None":
    """Load a drafter beside its target, see `LoadedDrafter.load`; a model's own layer that cannot be used is left out.

    Raises CheckpointError and DeviceError.
    """
    if drafter is None:
        return None
    try:
        return LoadedDrafter.load(drafter, checkpoint, target, device, special_ids, weights=weights, kv=config.kv)
    except (CheckpointError, DeviceError) as error:
        if config.head is not None:
            raise
        target.keep_features([])
        warn_of_own_layer(error)
        return None


def drafter_weights(weights: str) -> str:
    """The format of a drafter's weights beside a target's: the same one, where both can have it."""
    return "int8" if weights == STORED else weights


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDrafter:
    """A decoder whose KV cache has the blocks of its target's."""

    name: str  # for clients
    path: Path  # of its files
    doubts: str  # what may be wrong with it if it is hardly ever right
    decoder: Decoder
    config: ModelConfig
    num_predictions: int  # of a step that it was trained for
    device: Device
    shortlist: HeadShortlist | None  # where the output matrix has a row for each token of a large vocabulary

    @classmethod
    def load(
        cls,
        drafter: AttachedDrafter,
        checkpoint: Checkpoint,
        target: Decoder,
        device: Device,
        special_ids: Iterable[int] = (),
        *,
        weights: str,
        kv: str,
    ) -> "LoadedDrafter":
        """Load the weights, shorten a large output matrix, and let the target keep the features that it reads.

        It still lacks its KV cache. `checkpoint` and `weights` are the target's, and `device` is its first one.
        `special_ids` are the special tokens. Raises CheckpointError and DeviceError.
        """
        if problem := drafter.checkpoint.find_not_finite():
            raise CheckpointError(problem)
        weights = drafter_weights(weights)
        target.keep_features(drafter.boundaries)
        decoder = new_decoder(drafter.checkpoint, device, weights=weights, kv=kv, target=target)
        fill_shared(checkpoint, drafter.checkpoint, decoder)
        fill_decoder(drafter.checkpoint, decoder, device, weights)
        if drafter.head_tokens:
            decoder.set_head_tokens(drafter.head_tokens)
        return cls(
            name=drafter.name,
            path=drafter.checkpoint.path,
            doubts=drafter.doubts,
            decoder=decoder,
            config=drafter.checkpoint.config,
            num_predictions=drafter.num_predictions,
            device=device,
            shortlist=_shortlist(drafter, decoder, special_ids),
        )

    @property
    def block(self) -> FeatureBlock | None:
        """How it predicts several tokens in one pass; None if it predicts one after another."""
        return _block(self.config)

    @property
    def reads_target(self) -> bool:
        """Whether it goes on from any row of its target alone, at the position after it; see ModelConfig."""
        return self.config.reads_target

    @property
    def ends_early(self) -> bool:
        """Whether a run of draws may end before its last one."""
        return self.device.memory is None or (self.block is not None and self.block.has_confidence)

    def reserve(self, *, max_rows: int, max_sequences: int, max_blocks: int) -> None:
        """Allocate memory for passes over what its target has computed in passes of such sizes, and for predictions."""
        max_logits = max_sequences
        if self.block is not None:
            max_logits = min(max_sequences * self.block.most_predictions, max_rows)
            # Masks continue the rows that are read; a block after a context has one row more than predictions.
            max_rows = max_rows + max_logits if self.block.continues_rows else max(max_rows, max_logits + max_sequences)
        self.decoder.reserve(
            max_rows=max_rows, max_logits=max_logits, max_sequences=max_sequences, max_blocks=max_blocks
        )


def shortlist_parameters(drafter: AttachedDrafter) -> int:
    """Return how many weights are held once more for a drafter that predicts among fewer tokens than it has."""
    config = drafter.checkpoint.config
    block = _block(config)
    return _shortlist_size(drafter) * (config.hidden_size + (0 if block is None else block.markov_rank))


def _block(config: ModelConfig) -> FeatureBlock | None:
    return config.features.block if config.features is not None else None


def _shortlist_size(drafter: AttachedDrafter) -> int:
    """How many tokens a drafter predicts among if that is fewer than its output matrix is for, else 0."""
    is_large = drafter.checkpoint.config.vocab_size > 2 * _SHORTLIST_SIZE
    return _SHORTLIST_SIZE if is_large and not drafter.head_tokens else 0


def _shortlist(drafter: AttachedDrafter, decoder: Decoder, special_ids: Iterable[int]) -> HeadShortlist | None:
    """Shorten the output matrix if it is for a whole large vocabulary: it would take most of the time."""
    if not (size := _shortlist_size(drafter)):
        return None
    return HeadShortlist(decoder, special_ids, drafter.checkpoint.config.vocab_size, size)
