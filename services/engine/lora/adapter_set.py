"""AdapterSet: the adapters that a decoder has, by the names that requests ask for."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.decoder.native import Decoder
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.lora.peft_folder import PeftFolder

logger = logging.getLogger(__name__)

NO_ADAPTER = -1
"""What rows have in place of an adapter's number."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One in a decoder: its number there, and the hash of its files."""

    number: int
    digest: str


class AdapterSet:
    """Made once, with the decoder."""

    def __init__(self, adapters: Mapping[str, Adapter]) -> None:
        self._adapters = dict(adapters)

    @classmethod
    def load(cls, folders: Mapping[str, Path], checkpoint: Checkpoint, decoder: Decoder) -> "AdapterSet":
        """Read the folders, by their adapters' names, and give all to the decoder.

        Raises CheckpointError for a folder that is not as it should be, and for a device that computes no adapters.
        """
        return cls({name: _load(name, folder, checkpoint, decoder) for name, folder in folders.items()})

    @property
    def digests(self) -> dict[str, str]:
        """The hash of each adapter's files."""
        return {name: adapter.digest for name, adapter in self._adapters.items()}

    def number(self, name: str) -> int:
        """What rows that ask for this name have in a batch."""
        return self._adapters[name].number


def _load(name: str, folder: Path, checkpoint: Checkpoint, decoder: Decoder) -> Adapter:
    peft = PeftFolder(folder)
    try:
        number = decoder.add_adapter(peft.scale, dict(peft.updates(checkpoint)))
    except ValueError as error:
        raise CheckpointError(f"lora {name!r}, {folder}: {error}") from error
    adapter = Adapter(number, peft.digest())
    logger.info("lora %s: %s, of hash %s", name, folder, adapter.digest[:32])
    return adapter
