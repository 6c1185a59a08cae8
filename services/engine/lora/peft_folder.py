"""PeftFolder: reads a LoRA adapter as PEFT saves it, as updates of a checkpoint's weights under our names."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.safetensors_file import FLOATS, SafetensorsFile
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.lora.peft_config import CONFIG, read_peft_config

WEIGHTS = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"
_CHANGED = frozenset(  # weights of a layer
    {"q", "q_gate", "k", "v", "o", "conv_in", "conv_out", "gate", "up", "down"}
    | {"q_down", "kv_down", "delta_qkv", "delta_z", "delta_b", "delta_a", "delta_out", "input_gate", "input_projection"}
)
Update = tuple[NDArray[Any], NDArray[Any]]
"""A and B of one weight: [rank, in], [out, rank]."""


class PeftFolder:
    """One adapter; the format is described at https://huggingface.co/docs/peft/developer_guides/checkpoint."""

    def __init__(self, folder: Path) -> None:
        """Read the configuration and check the tensors' names; raises CheckpointError naming the file and the fault."""
        self._config = read_peft_config(folder)
        self._file = SafetensorsFile(folder / WEIGHTS)
        self.scale = self._config.scale
        self._modules = {self._module_of(name) for name in self._file}
        if not self._modules:
            raise CheckpointError(f"{self._file.path}: holds no tensors")
        self._described = (folder / CONFIG).read_bytes()

    def digest(self) -> str:
        """Return a SHA-256 over the configuration and the names, types, shapes and bytes of the tensors."""
        digest = hashlib.sha256(self._described)
        for name in sorted(self._file):
            digest.update(f"\n{name} {self._file.dtype(name)} {self._file.shape(name)}\n".encode())
            digest.update(np.ascontiguousarray(self._file.tensor(name)).data)
        return digest.hexdigest()

    def updates(self, checkpoint: Checkpoint) -> Iterator[tuple[str, Update]]:
        """Yield the update of every weight that the adapter changes; one tensor may hold the rows of several weights.

        Raises CheckpointError for a module that the checkpoint lacks or an adapter cannot change, and for wrong shapes.
        """
        found: set[str] = set()
        for module in sorted(self._modules):
            down, up = self._tensor(module, _DOWN), self._tensor(module, _UP)
            inputs, outputs = self._shape_of(module, checkpoint)
            self._check_shape(module + _DOWN, down, (self._config.rank, inputs))
            self._check_shape(module + _UP, up, (outputs, self._config.rank))
            for name, rows in checkpoint.split_rows(f"{module}.weight", up).items():
                if name in found:
                    raise CheckpointError(f"{self._file.path}: module {module!r} is there twice, under two names")
                found.add(name)
                yield name, (down, np.ascontiguousarray(rows))

    def _module_of(self, tensor: str) -> str:
        for end in (_DOWN, _UP):
            if tensor.startswith(_PREFIX) and tensor.endswith(end):
                return tensor.removeprefix(_PREFIX).removesuffix(end)
        allowed = f"{_PREFIX}MODULE{_DOWN} and {_PREFIX}MODULE{_UP}"
        raise CheckpointError(f"{self._file.path}: tensor {tensor!r} is not supported; allowed are {allowed}")

    def _shape_of(self, module: str, checkpoint: Checkpoint) -> tuple[int, int]:
        shapes = checkpoint.shapes_in(f"{module}.weight")
        where = f"{self._file.path}: module {module!r}"
        if not shapes:
            raise CheckpointError(f"{where} is none of {checkpoint.path}'s")
        if not all(_is_changed(name) for name in shapes):
            allowed = (
                "those of the queries, keys, values and outputs of attention, of what compresses them, before and "
                "after a short convolution or the gated delta rule, of an MLP for all tokens, and of layers' own inputs"
            )
            raise CheckpointError(f"{where} cannot be changed by an adapter; allowed are {allowed}")
        return next(iter(shapes.values()))[1], sum(shape[0] for shape in shapes.values())

    def _tensor(self, module: str, end: str) -> NDArray[Any]:
        name = f"{_PREFIX}{module}{end}"
        if name not in self._file:
            raise CheckpointError(f"{self._file.path}: tensor {name!r} is missing")
        if (kind := self._file.dtype(name)) not in FLOATS:
            raise CheckpointError(f"{self._file.path}: tensor {name!r} is {kind}; it must be {', '.join(FLOATS)}")
        return self._file.tensor(name)

    def _check_shape(self, name: str, values: NDArray[Any], expected: tuple[int, int]) -> None:
        if values.shape != expected:
            problem = f"has shape {[*values.shape]}; by {CONFIG} and the model it must be {[*expected]}"
            raise CheckpointError(f"{self._file.path}: tensor {_PREFIX + name!r} {problem}")


def _is_changed(name: str) -> bool:
    layer, _, weight = name.rpartition(".")
    return name == "layer_projection" or (layer.count(".") == 1 and weight in _CHANGED)
