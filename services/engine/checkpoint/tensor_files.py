"""TensorFiles: the tensors of a checkpoint folder, in one file or in shards with an index."""

from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.safetensors_file import SafetensorsFile
from services.engine.checkpoint.stored_tensors import TensorsInFiles
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields
from services.engine.files.model_file import MIB

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
_MOST_INDEX_BYTES = 16 * MIB
_MOST_SHARDS = 1024


class TensorFiles(TensorsInFiles[SafetensorsFile]):
    """The tensors of a folder."""

    def __init__(self, folder: Path) -> None:
        """Open and check all files; raises CheckpointError naming the file at fault."""
        if (folder / SINGLE).exists():
            file = SafetensorsFile(folder / SINGLE)
            super().__init__(dict.fromkeys(file, file))
        elif (folder / INDEX).exists():
            super().__init__(_open_shards(folder))
        elif (folder / PICKLE).exists():
            raise CheckpointError(f"{folder}: {pickle_problem(str(folder))}")
        else:
            raise CheckpointError(f"{folder}: holds neither {SINGLE} nor {INDEX}")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor."""
        return self._files[name].shape(name)

    def kind(self, name: str) -> str:
        """Return the type of a tensor's values, as the format names it."""
        return self._files[name].dtype(name)

    def tensor(self, name: str) -> NDArray[Any]:
        """Return one tensor as a read-only view of its file."""
        return self._files[name].tensor(name)

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows of a tensor, a read-only view of its file."""
        return self.tensor(name)[begin:end]

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the bytes of rows.  # [rows, bytes of a row]"""
        rows = self.rows(name, begin, end)
        return rows.view(np.uint8).reshape(len(rows), -1)


def pickle_problem(folder: str) -> str:
    """Why the weights of a folder are refused, with the command that converts them, for a shell."""
    convert = (
        "import sys, torch, safetensors.torch; folder = sys.argv[1]; "
        f"weights = torch.load(folder + '/{PICKLE}', map_location='cpu', weights_only=True); "
        "weights = {name: each.clone().contiguous() for name, each in weights.items()}; "
        f"safetensors.torch.save_file(weights, folder + '/{SINGLE}')"
    )
    problem = f"holds {PICKLE}, a pickle, which may run code when it is read, and no {SINGLE}"
    return (
        f'{problem}; convert it, where torch and safetensors are installed, with: python -c "{convert}" {quote(folder)}'
    )


def read_weight_map(path: Path) -> dict[str, str]:
    """Return the file that holds each tensor, from an index file; raises CheckpointError if it is bad."""
    index = JsonFields.from_file(path, most_bytes=_MOST_INDEX_BYTES)
    names = index.raw("weight_map")
    if not isinstance(names, dict) or not names or not all(_is_file_name(file) for file in names.values()):
        raise index.error("weight_map", "must map each tensor's name to the name of a file in the same folder")
    if (count := len(set(names.values()))) > _MOST_SHARDS:
        raise index.error("weight_map", f"names {count} files; it may name at most {_MOST_SHARDS}")
    return names


def _open_shards(folder: Path) -> dict[str, SafetensorsFile]:
    names = read_weight_map(folder / INDEX)
    shards = {file: SafetensorsFile(folder / file) for file in sorted(set(names.values()))}
    for name, file in names.items():
        if name not in shards[file]:
            raise CheckpointError(f"{folder / file}: tensor {name!r} is missing, though {INDEX} places it there")
    return {name: shards[file] for name, file in names.items()}


def _is_file_name(value: object) -> bool:
    return isinstance(value, str) and value not in ("", ".", "..") and Path(value).name == value
