"""Loras: the LoRA adapters of the first model as the contract has them, with a number for each."""

import asyncio
from itertools import count
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
from services.target.generation.engine_interface import Engine
from services.target.models.lora_changes import LoraChanges
from services.target.models.target_model import TargetModel
from services.target.openengine.v1 import openengine_pb2

_LONGEST_SHOWN = 64  # characters of a name in an error
_NAMES = {"name": "adapter.lora_name", "folder": "adapter.source_path"}


class Loras:
    """Adapters that were loaded otherwise have the smallest free numbers, in the order in which they are first seen.

    Those who run the server allow changes by a folder to load from.
    """

    def __init__(self, model: TargetModel, changes: LoraChanges) -> None:
        self._model, self._changes = model, changes
        self._ids: dict[str, int] = {}
        self._loading: str | None = None  # the name of an adapter that is being loaded
        self._changing = asyncio.Lock()

    def id_of(self, name: str) -> int:
        """The number of an adapter; 0 if it is not loaded."""
        self._ids = {each: number for each, number in self._ids.items() if each in (*self._model.loras, self._loading)}
        for each in self._model.loras:
            if each not in self._ids:
                self._ids[each] = next(number for number in count(1) if number not in self._ids.values())
        return self._ids.get(name, 0) if name in self._model.loras else 0

    def all(self) -> list[openengine_pb2.LoraAdapter]:
        """The adapters that requests may name."""
        return [self._adapter(name) for name in self._model.loras]

    async def load(self, wanted: openengine_pb2.LoraAdapter) -> openengine_pb2.LoadLoraResponse:
        """Load an adapter, unless the same one is there.

        Raises InvalidRequestError, AlreadyExistsError, PreconditionError and UnavailableError.
        """
        self._require_folder()
        folder = _check(wanted)
        loading = asyncio.create_task(self._load(wanted, folder))
        return await asyncio.shield(loading)  # a caller that gives up must not leave it half done

    async def unload(self, name: str) -> openengine_pb2.UnloadLoraResponse:
        """Refuse further requests for an adapter; raises NotFoundError, PreconditionError and UnavailableError."""
        self._require_folder()
        async with self._changing:
            if name not in self._model.loras:
                raise NotFoundError(f"lora_name {name[:_LONGEST_SHOWN]!r} is not loaded")
            adapter = self._adapter(name)
            self._changes.drop(self._engine(), self._model, name)
            return openengine_pb2.UnloadLoraResponse(adapter=adapter)

    def _require_folder(self) -> None:
        if self._model.lora_dir is None:
            raise PreconditionError("this server changes no adapters: it was started without --lora-dir")

    def _engine(self) -> Engine:
        if (engine := self._model.engine) is None:
            raise UnavailableError("the model is not loaded")
        return engine

    def _adapter(self, name: str) -> openengine_pb2.LoraAdapter:
        path = str(self._model.loras[name])
        return openengine_pb2.LoraAdapter(lora_id=self.id_of(name), lora_name=name, source_path=path)

    async def _load(self, wanted: openengine_pb2.LoraAdapter, folder: Path) -> openengine_pb2.LoadLoraResponse:
        async with self._changing:
            is_there = self._is_there(wanted, folder)
            if not is_there:
                self._loading = wanted.lora_name
                self._ids[wanted.lora_name] = wanted.lora_id
                try:
                    await self._load_new(wanted)
                finally:
                    self._loading = None
            return openengine_pb2.LoadLoraResponse(adapter=wanted, already_loaded=is_there)

    def _is_there(self, wanted: openengine_pb2.LoraAdapter, folder: Path) -> bool:
        """Whether this adapter is loaded; raises AlreadyExistsError if another one has its name or number."""
        for there in self.all():
            same_name, same_id = wanted.lora_name == there.lora_name, wanted.lora_id == there.lora_id
            if same_name and same_id and folder == Path(there.source_path).resolve():
                return True
            if same_name or same_id:
                described = f"{there.lora_name!r} with lora_id {there.lora_id}"
                raise AlreadyExistsError(f"{described} is loaded: its name, its number or its folder is another one")
        return False

    async def _load_new(self, wanted: openengine_pb2.LoraAdapter) -> None:
        try:
            await self._changes.load(self._model, self._engine(), wanted.lora_name, wanted.source_path)
        except InvalidRequestError as error:
            raise in_contract(error, _NAMES) from error
        except ValueError as error:
            raise _bad_path(wanted.source_path, error) from error


def _check(wanted: openengine_pb2.LoraAdapter) -> Path:
    """Check an adapter, and return its folder; raises InvalidRequestError."""
    found = Violations()
    if wanted.lora_id < 1:
        found.add("adapter.lora_id", f"is {wanted.lora_id}", "at least 1")
    if not wanted.lora_name:
        found.add("adapter.lora_name", "is empty", "a name")
    if not wanted.source_path.startswith("/"):
        found.add("adapter.source_path", f"is {wanted.source_path[:_LONGEST_SHOWN]!r}", "an absolute path")
    found.raise_if_any()
    try:
        return Path(wanted.source_path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise _bad_path(wanted.source_path, error) from error


def _bad_path(path: str, error: Exception) -> InvalidRequestError:
    return InvalidRequestError([Violation("adapter.source_path", f"{path[:_LONGEST_SHOWN]!r}: {error}")])
