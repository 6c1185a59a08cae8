"""AdapterSet: the adapters that a decoder has, by the names that requests ask for."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.decoder.native import Decoder
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.lora.adapter import Adapter
from services.engine.lora.peft_folder import PeftFolder

logger = logging.getLogger(__name__)


class AdapterSet(Mapping[str, Adapter]):
    """Changed by one thread; others may read it meanwhile, and passes go on beside that."""

    def __init__(self, checkpoint: Checkpoint, decoder: Decoder) -> None:
        self._checkpoint, self._decoder = checkpoint, decoder
        self._adapters: dict[str, Adapter] = {}
        self._num_users = Counter[Adapter]()

    @classmethod
    def load(cls, folders: Mapping[str, Path], checkpoint: Checkpoint, decoder: Decoder) -> "AdapterSet":
        """Read the folders, by their adapters' names, and give all to the decoder; raises as `read`."""
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
        """Read a folder and give it to the decoder, which may take long; any thread may.

        Raises CheckpointError for a folder that is not as it should be, and for a device that computes no adapters.
        """
        peft = PeftFolder(folder)
        try:
            number = self._decoder.add_adapter(peft.scale, dict(peft.updates(self._checkpoint)))
        except ValueError as error:
            raise CheckpointError(f"lora {name!r}, {folder}: {error}") from error
        adapter = Adapter(name, peft.digest(), number)
        logger.info("lora %s: %s, of hash %s", name, folder, adapter.digest[:32])
        return adapter

    def add(self, adapter: Adapter) -> None:
        """Let requests ask for it by its name, which none has yet."""
        self._adapters[adapter.name] = adapter

    def drop(self, name: str) -> Adapter:
        """Let no further request ask for it; once `is_unused`, `forget` it."""
        return self._adapters.pop(name)

    def use(self, adapter: Adapter) -> None:
        """Note one more who computes by it."""
        self._num_users[adapter] += 1

    def leave(self, adapter: Adapter) -> None:
        """Note one less."""
        self._num_users[adapter] -= 1

    def num_users(self, adapter: Adapter) -> int:
        """How many compute by it."""
        return self._num_users[adapter]

    def is_unused(self, adapter: Adapter) -> bool:
        """Whether it was dropped, and nobody computes by it any more."""
        return self._adapters.get(adapter.name) != adapter and not self._num_users[adapter]

    def forget(self, adapter: Adapter) -> None:
        """Give its memory back."""
        del self._num_users[adapter]
        self._decoder.remove_adapter(adapter.number)
        logger.info("lora %s: unloaded", adapter.name)
