"""AdapterLoader: loads LoRA adapters to a decoder, and unloads them."""

import logging
from collections.abc import Mapping
from pathlib import Path

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.decoder.native import Decoder, DeviceError
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.lora.adapter import Adapter
from services.engine.lora.peft_folder import PeftFolder

logger = logging.getLogger(__name__)


class AdapterLoader:
    """Passes may run meanwhile."""

    def __init__(self, checkpoint: Checkpoint, decoder: Decoder) -> None:
        self._checkpoint, self._decoder = checkpoint, decoder

    def load_all(self, folders: Mapping[str, Path]) -> dict[str, Adapter]:
        """Load the adapters in these folders, by their names; raises CheckpointError as `load` does."""
        return {name: self.load(name, folder) for name, folder in folders.items()}

    def load(self, name: str, folder: Path) -> Adapter:
        """Load the adapter in a folder, which may take long; any thread may call this.

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

    def unload(self, adapter: Adapter) -> None:
        """Remove an adapter that nothing uses, which frees its memory."""
        self._decoder.remove_adapter(adapter.number)
        logger.info("lora %s: unloaded", adapter.name)
