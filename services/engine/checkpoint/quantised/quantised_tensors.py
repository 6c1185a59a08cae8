"""QuantisedTensors: the files of a quantised checkpoint, as if each matrix were one tensor."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.methods import Method
from services.engine.checkpoint.quantised.packed_matrix import PackedMatrix
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.checkpoint.safetensors_file import FLOATS
from services.engine.checkpoint.tensor_files import TensorFiles
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.file_state import FileState

# Scales of activations and of the KV cache: we compute our own scales for both.
_IGNORED = frozenset(
    [
        *("input_scale", "input_zero_point", "input_global_scale", "input_scale_ub", "output_scale"),
        *("activation_scale", "q_scale", "k_scale", "v_scale", "kv_scale", "k_zero_point", "v_zero_point"),
    ]
)
_VALUES = ".weight"


class QuantisedTensors:
    """Every tensor by its name in a checkpoint that is not quantised."""

    def __init__(self, files: TensorFiles, method: Method) -> None:
        """Find the matrices; raises CheckpointError naming the tensor at fault."""
        self._files = files
        self._matrices: dict[str, PackedMatrix] = {}
        for name in files:
            for end, whole in method.mains.items():
                if name.endswith(end) and (end != _VALUES or files.kind(name) not in FLOATS):
                    stem = name.removesuffix(end)
                    self._add(stem + whole, method.matrix(Parts(files, stem + end[0], method.name)))
        self._places = {matrix.parts[0]: name for name, matrix in self._matrices.items()}
        self._hidden = {part for matrix in self._matrices.values() for part in matrix.parts[1:]}

    def _add(self, name: str, matrix: PackedMatrix) -> None:
        if name in self._files and name not in matrix.parts:
            raise CheckpointError(
                f"{self._files.path(name)}: tensor {name!r} is there beside {matrix.parts[0]!r}; only one may be"
            )
        self._matrices[name] = matrix

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return name in self._matrices or name in self._files

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tensors."""
        for name in self._files:
            if name not in self._hidden and name.rpartition(".")[2] not in _IGNORED:
                yield self._places.get(name, name)

    def path(self, name: str) -> Path:
        """Return the file that holds a tensor, or its largest part."""
        return self._files.path(self._matrices[name].parts[0] if name in self._matrices else name)

    def states(self) -> list[FileState]:
        """Return the states in which the files were opened, in the order of their paths."""
        return self._files.states()

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor."""
        return self._matrices[name].shape if name in self._matrices else self._files.shape(name)

    def kind(self, name: str) -> str:
        """Return the type of a tensor's values; for a matrix in blocks it is that of the blocks."""
        return self._matrices[name].kind if name in self._matrices else self._files.kind(name)

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers.  # [rows, …]"""
        return self._matrices[name].rows(begin, end) if name in self._matrices else self._files.rows(name, begin, end)

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as their kind holds them.  # [rows, bytes of a row]"""
        if name not in self._matrices:
            return self._files.stored_rows(name, begin, end)
        matrix = self._matrices[name]
        return matrix.rows(begin, end).view(np.uint8) if matrix.kind == "F32" else matrix.blocks(begin, end)

    def release(self, name: str) -> None:
        """Release the memory that reading one tensor has taken; views stay valid."""
        for part in self._matrices[name].parts if name in self._matrices else (name,):
            self._files.release(part)

    def is_matrix(self, name: str) -> bool:
        """Whether a tensor is a quantised matrix."""
        return name in self._matrices

    def idle_biases(self) -> set[str]:
        """Return the biases that are all zeros; some tools write them for matrices without a bias."""
        names = (f"{name.removesuffix(_VALUES)}.bias" for name in self._matrices)
        present = [name for name in names if name in self._files and self._files.kind(name) in FLOATS]
        return {name for name in present if not self._files.tensor(name).any()}
