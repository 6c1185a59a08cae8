"""Parts: the tensors that together hold one matrix, each checked before it is used."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.integer_matrix import Groups
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.checkpoint.tensor_files import TensorFiles
from services.engine.files.checkpoint_error import CheckpointError


class Parts:
    """The tensors whose names share a prefix, such as "model.layers.0.self_attn.q_proj."."""

    def __init__(self, files: TensorFiles, prefix: str, method: str) -> None:
        self.files = files
        self._prefix = prefix
        self._method = method

    def name(self, part: str) -> str:
        """Return the name of a part."""
        return self._prefix + part

    def __contains__(self, part: str) -> bool:
        """Whether there is such a part."""
        return self.name(part) in self.files

    def require(self, part: str, types: tuple[str, ...]) -> tuple[int, ...]:
        """Return a part's shape; raises CheckpointError if it is missing or has another type."""
        if part not in self:
            raise CheckpointError(
                f"{self.files.path(self._any())}: tensor {self.name(part)!r} is missing; {self._method} needs it"
            )
        if (found := self.files.kind(self.name(part))) not in types:
            raise self.error(part, f"is {found}; by {self._method} it must be {' or '.join(types)}")
        return self.files.shape(self.name(part))

    def expect(self, part: str, types: tuple[str, ...], *shapes: tuple[int, ...]) -> None:
        """Raise CheckpointError unless a part is there, of one of the types and one of the shapes."""
        if (shape := self.require(part, types)) not in shapes:
            allowed = " or ".join(str([*allowed]) for allowed in shapes)
            raise self.error(part, f"has shape {[*shape]}; by {self._method} it must be {allowed}")

    def matrix(self, part: str, types: tuple[str, ...]) -> tuple[int, int]:
        """Return the shape of a part that must have two dimensions and be non-empty; raises CheckpointError."""
        shape = self.require(part, types)
        if len(shape) != 2 or math.prod(shape) == 0:
            raise self.error(part, f"has shape {[*shape]}; by {self._method} it must have two dimensions")
        return shape[0], shape[1]

    def error(self, part: str, problem: str) -> CheckpointError:
        """Make the error that names a part and its file."""
        name = self.name(part)
        return CheckpointError(f"{self.files.path(name)}: tensor {name!r} {problem}")

    def tensor(self, part: str) -> NDArray[Any]:
        """Return a part as a view of its file."""
        return self.files.tensor(self.name(part))

    def integers(self, part: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a part of integers of a given shape; raises CheckpointError if it has another shape or type."""
        self.expect(part, ("I32", "I64"), shape)
        return self.tensor(part)

    def floats_of(self, part: str, begin: int, end: int) -> NDArray[np.float32]:
        """Return the values of some columns, as rows.  # [end - begin, rows of the part]"""
        return to_float32(self.tensor(part)[:, begin:end].T)

    def named(self, *parts: str) -> tuple[str, ...]:
        """Return the names of those of these parts that exist."""
        return tuple(self.name(part) for part in parts if part in self)

    def groups(self, part: str, in_features: int, num_groups: int) -> Groups:
        """Return a function for the group of each input, from a part; raises CheckpointError for one out of range."""
        groups = self.integers(part, (in_features,))
        if groups.min() < 0 or groups.max() >= num_groups:
            wrong = int(groups[(groups < 0) | (groups >= num_groups)][0])
            raise self.error(part, f"holds {wrong}; there are groups 0 to {num_groups - 1}")
        return lambda: groups.astype(np.int64)

    def _any(self) -> str:
        return next(name for name in self.files if name.startswith(self._prefix))
