"""AdapterSet: the LoRA adapters of a decoder, by their names in requests."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.decoder.native import Decoder, DeviceError
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.lora.adapter import Adapter
from services.engine.lora.peft_folder import PeftFolder

logger = logging.getLogger(__name__)


class AdapterSet(Mapping[str, Adapter]):
    """Only one thread may change it; others may read it meanwhile, and passes may run."""

    def __init__(self, checkpoint: Checkpoint, decoder: Decoder) -> None:
        self._checkpoint, self._decoder = checkpoint, decoder
        self._adapters: dict[str, Adapter] = {}
        self._num_users = Counter[Adapter]()

    @classmethod
    def load(cls, folders: Mapping[str, Path], checkpoint: Checkpoint, decoder: Decoder) -> "AdapterSet":
        """Load the adapters in these folders, by their names; raises CheckpointError as `read` does."""
        adapters = cls(checkpoint, decoder)
        for name, folder in folders.items():
            adapters.add(adapters.read(name, folder))
        return adapters

    def __getitem__(self, name: str) -> Adapter:
        return self._adapters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._adapters))

    def __len__(self) -> int:
        return len(self._adapters)

    def read(self, name: str, folder: Path) -> Adapter:
        """Load the adapter in a folder to the decoder, which may take long; any thread may call this.

        Raises CheckpointError for a bad folder, and if the device has too little memory.
        """
        peft = PeftFolder(folder)
        try:
            number = self._decoder.add_adapter(peft.scale, dict(peft.updates(self._checkpoint)))
        except (ValueError, DeviceError) as error:
            raise CheckpointError(f"lora {name!r}, {folder}: {error}") from error
        adapter = Adapter(name, peft.digest(), number)
        logger.info("lora %s: %s, of hash %s", name, folder, adapter.digest[:32])
        return adapter

    def add(self, adapter: Adapter) -> None:
        """Make an adapter available to requests by its name, which no other adapter has."""
        self._adapters[adapter.name] = adapter

    def drop(self, name: str) -> Adapter:
        """Make an adapter unavailable to further requests, and return it; once `is_unused`, `forget` it."""
        return self._adapters.pop(name)

    def use(self, adapter: Adapter) -> None:
        """Count one more request that uses it."""
        self._num_users[adapter] += 1

    def leave(self, adapter: Adapter) -> None:
        """Count one less request that uses it."""
        self._num_users[adapter] -= 1

    def num_users(self, adapter: Adapter) -> int:
        """Return how many requests use it."""
        return self._num_users[adapter]

    def is_unused(self, adapter: Adapter) -> bool:
        """Return whether it was dropped, and no request uses it any more."""
        return self._adapters.get(adapter.name) != adapter and not self._num_users[adapter]

    def forget(self, adapter: Adapter) -> None:
        """Remove it from the decoder, which frees its memory."""
        del self._num_users[adapter]
        self._decoder.remove_adapter(adapter.number)
        logger.info("lora %s: unloaded", adapter.name)
