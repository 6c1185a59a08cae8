"""LoraChanges: loads and unloads a model's LoRA adapters while it is served."""

import asyncio
from pathlib import Path

from services.engine.lora.adapter import Adapter
from services.target.generation.engine_interface import Engine
from services.target.models.target_model import TargetModel
from services.target.models.target_models import TargetModels


class LoraChanges:
    """Makes one change at a time, on one event loop. Passes continue meanwhile, and no byte of an answer changes."""

    def __init__(self, models: TargetModels) -> None:
        self._models = models
        self._changing = asyncio.Lock()

    async def load(self, model: TargetModel, engine: Engine, name: str, folder: str) -> None:
        """Read an adapter from a folder below the configured one, and accept requests for it.

        Raises InvalidRequestError for a name that is taken or not allowed, and ValueError for a folder that is outside
        or is no adapter of the model.
        """
        path = _below(model.lora_dir, folder)
        loading = asyncio.create_task(self._load(model, engine, name, path))
        await asyncio.shield(loading)  # a caller that cancels must not leave the change half done

    def drop(self, engine: Engine, model: TargetModel, name: str) -> int:
        """Refuse further requests for an adapter; returns how many still use it."""
        del model.loras[name]
        return engine.adapters.drop(name)

    async def _load(self, model: TargetModel, engine: Engine, name: str, path: Path) -> None:
        async with self._changing:
            self._models.check_new(name)
            adapter: Adapter = await asyncio.to_thread(engine.load_adapter, name, path)
            engine.adapters.add(adapter)
            model.loras[name] = path


def _below(allowed: Path | None, folder: str) -> Path:
    if allowed is None:
        raise ValueError("this server was given no folder to load adapters from (--lora-dir)")
    path = (allowed / folder).resolve()
    if not path.is_relative_to(allowed.resolve()):
        raise ValueError("is not below the folder that this server loads adapters from (--lora-dir)")
    return path
