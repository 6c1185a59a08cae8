"""Loras: the LoRA adapters of the first model as the contract has them, with a number for each."""

import asyncio
from pathlib import Path

from services.service.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
    Violation,
)
from services.service.validation import Violations
from services.target.contracts.field_names import in_contract
from services.target.models.lora_changes import LoraChanges
from services.target.models.target_model import TargetModel
from services.target.openengine.v1 import openengine_pb2

_LONGEST_SHOWN = 64  # characters of a name in an error
_NAMES = {"name": "adapter.lora_name", "folder": "adapter.source_path"}


class Loras:
    """Adapters that were loaded otherwise have the next free numbers, in the order in which they are first seen."""

    def __init__(self, model: TargetModel, changes: LoraChanges) -> None:
        self._model, self._changes = model, changes
        self._ids: dict[str, int] = {}
        self._loading = asyncio.Lock()

    def id_of(self, name: str) -> int:
        """The number of an adapter; 0 if it is not loaded."""
        if name not in self._model.loras:
            return 0
        if name not in self._ids:
            self._ids[name] = max(self._ids.values(), default=0) + 1
        return self._ids[name]

    def all(self) -> list[openengine_pb2.LoraAdapter]:
        """The adapters that requests may name."""
        return [self._adapter(name) for name in self._model.loras]

    async def load(self, wanted: openengine_pb2.LoraAdapter) -> openengine_pb2.LoadLoraResponse:
        """Load an adapter, unless the same one is there.

        Raises InvalidRequestError, AlreadyExistsError, PreconditionError and UnavailableError.
        """
        if self._model.lora_dir is None:
            raise PreconditionError("this server loads no adapters: it was started without --lora-dir")
        _check(wanted)
        async with self._loading:
            is_there = self._is_there(wanted)
            if not is_there:
                await self._load(wanted)
            return openengine_pb2.LoadLoraResponse(adapter=self._adapter(wanted.lora_name), already_loaded=is_there)

    def unload(self, name: str) -> openengine_pb2.UnloadLoraResponse:
        """Refuse further requests for an adapter; raises NotFoundError and UnavailableError."""
        if name not in self._model.loras:
            raise NotFoundError(f"lora_name {name[:_LONGEST_SHOWN]!r} is not loaded")
        if (engine := self._model.engine) is None:
            raise UnavailableError("the model is not loaded")
        adapter = self._adapter(name)
        self._changes.drop(engine, self._model, name)
        self._ids.pop(name, None)
        return openengine_pb2.UnloadLoraResponse(adapter=adapter)

    def _adapter(self, name: str) -> openengine_pb2.LoraAdapter:
        path = str(self._model.loras[name])
        return openengine_pb2.LoraAdapter(lora_id=self.id_of(name), lora_name=name, source_path=path)

    def _is_there(self, wanted: openengine_pb2.LoraAdapter) -> bool:
        """Whether this adapter is loaded; raises AlreadyExistsError if another one has its name or number."""
        folder = Path(wanted.source_path).resolve()
        for there in self.all():
            same_name, same_id = wanted.lora_name == there.lora_name, wanted.lora_id == there.lora_id
            if same_name and same_id and folder == Path(there.source_path).resolve():
                return True
            if same_name or same_id:
                described = f"{there.lora_name!r} with lora_id {there.lora_id}"
                raise AlreadyExistsError(f"{described} is loaded: its name, its number or its folder is another one")
        return False

    async def _load(self, wanted: openengine_pb2.LoraAdapter) -> None:
        if (engine := self._model.engine) is None:
            raise UnavailableError("the model is not loaded")
        try:
            await self._changes.load(self._model, engine, wanted.lora_name, wanted.source_path)
        except InvalidRequestError as error:
            raise in_contract(error, _NAMES) from error
        except ValueError as error:
            problem = f"{wanted.source_path[:_LONGEST_SHOWN]!r}: {error}"
            raise InvalidRequestError([Violation("adapter.source_path", problem)]) from error
        self._ids[wanted.lora_name] = wanted.lora_id


def _check(wanted: openengine_pb2.LoraAdapter) -> None:
    found = Violations()
    if wanted.lora_id < 1:
        found.add("adapter.lora_id", f"is {wanted.lora_id}", "at least 1")
    if not wanted.lora_name:
        found.add("adapter.lora_name", "is empty", "a name")
    if not Path(wanted.source_path).is_absolute():
        found.add("adapter.source_path", f"is {wanted.source_path[:_LONGEST_SHOWN]!r}", "an absolute path")
    found.raise_if_any()
