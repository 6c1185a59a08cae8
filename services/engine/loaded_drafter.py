"""LoadedDrafter: an attached drafter's weights on its target's device."""

from collections.abc import Iterable
from dataclasses import dataclass

from services.engine.checkpoint.attached.attached_drafter import AttachedDrafter, find_own_drafter, load_drafter
from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.config import EngineConfig
from services.engine.decoder.model_loader import fill_decoder, new_decoder
from services.engine.decoder.native import Decoder, Device
from services.engine.decoder.weight_choice import STORED
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.head_shortlist import HeadShortlist
from services.engine.hub.fetch import fetch

_SHORTLIST = 32_768  # tokens among which a drafter predicts, where the vocabulary is more than twice as large


def find_drafter(config: EngineConfig, target: Checkpoint) -> AttachedDrafter | None:
    """Return the drafter of a model as configured, read and checked but for its weights' values; raises CheckpointError
    and HubError.
    """
    if config.head is not None:
        return load_drafter(fetch(config.head).path, target.config)
    return find_own_drafter(target) if config.own_head else None


def drafter_weights(weights: str) -> str:
    """The format of a drafter's weights beside a target's: the same one, where both can have it."""
    return "int8" if weights == STORED else weights


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDrafter:
    """A decoder whose KV cache has the blocks of its target's."""

    name: str  # where it was read
    decoder: Decoder
    config: ModelConfig
    num_predictions: int  # of a step that it was trained for
    device: Device
    shortlist: HeadShortlist | None  # of an output matrix for all of a large vocabulary

    @classmethod
    def load(
        cls,
        drafter: AttachedDrafter,
        target: Decoder,
        device: Device,
        *,
        weights: str,
        kv: str,
        special_ids: Iterable[int] = (),
    ) -> "LoadedDrafter":
        """Load the weights, and let the target keep the features that they read; it still lacks its KV cache.

        `weights` is the target's format, `special_ids` are the special tokens. Raises CheckpointError and DeviceError.
        """
        if problem := drafter.checkpoint.find_not_finite():
            raise CheckpointError(problem)
        weights = drafter_weights(weights)
        target.keep_features(drafter.boundaries)
        decoder = new_decoder(drafter.checkpoint, device, weights=weights, kv=kv, target=target)
        fill_decoder(drafter.checkpoint, decoder, device, weights)
        if drafter.head_tokens:
            decoder.set_head_tokens(drafter.head_tokens)
        return cls(
            name=str(drafter.checkpoint.path),
            decoder=decoder,
            config=drafter.checkpoint.config,
            num_predictions=drafter.num_predictions,
            device=device,
            shortlist=_shortlist(drafter, decoder, special_ids),
        )

    @property
    def ends_early(self) -> bool:
        """Whether a run of draws may end before its last one."""
        return self.device.memory is None

    def reserve(self, *, max_rows: int, max_sequences: int, max_blocks: int) -> None:
        """Allocate memory for passes of such sizes."""
        self.decoder.reserve(
            max_rows=max_rows, max_logits=max_sequences, max_sequences=max_sequences, max_blocks=max_blocks
        )


def _shortlist(drafter: AttachedDrafter, decoder: Decoder, special_ids: Iterable[int]) -> HeadShortlist | None:
    """Shorten the output matrix if it is for a whole large vocabulary: it would take most of the time."""
    vocab_size = drafter.checkpoint.config.vocab_size
    if drafter.head_tokens or vocab_size <= 2 * _SHORTLIST:
        return None
    return HeadShortlist(decoder, special_ids, vocab_size, _SHORTLIST)
