"""Checkpoint: a Hugging Face folder, read as a ModelConfig and weights under our names."""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.architectures import Architecture, expand_names, read_architecture
from services.engine.checkpoint.generation_defaults import (
    read_eos_token_ids,
    read_generation_defaults,
    warn_of_what_is_not_carried_out,
)
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.checkpoint.tensor_files import TensorFiles
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.file_state import FileState
from services.engine.files.json_fields import JsonFields, shown
from services.engine.text.tokenizer import Tokenizer

_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_PACKED_AT_ONCE = 16 << 20  # bytes: enough for the threads to share, and little beside the weights
_DIGESTED_AT_ONCE = 2 << 20  # bytes, by each thread
_RECOMPUTED = ".rotary_emb.inv_freq"  # old checkpoints store what config.json implies


def load_checkpoint(folder: str | os.PathLike[str], *, context_length: int | None = None) -> "Checkpoint":
    """Read and check a folder's configuration and the names and shapes of all its weights, but not their data.

    `context_length` shortens the context below what the checkpoint allows, and with it goes what a rotary scaling
    chooses by the context. Raises CheckpointError naming the file, field or tensor at fault.
    """
    return Checkpoint(Path(folder), context_length)


class Checkpoint:
    """One model: its configuration, its recommended sampling settings, and its weights on disk."""

    def __init__(self, folder: Path, context_length: int | None = None) -> None:
        fields = JsonFields.from_file(folder / "config.json")
        generation = JsonFields.from_file_if_any(folder / "generation_config.json")
        self.folder = folder
        self._architecture, config = read_architecture(fields, context_length)
        self.generation = read_generation_defaults(generation)
        self.eos_token_ids = read_eos_token_ids(generation, fields, config.vocab_size)
        warn_of_what_is_not_carried_out(generation)
        self._files = TensorFiles(folder)
        self.config = _untie(config, self._files)
        self._names = _match_names(self._architecture, self.config, self._files)

    def weights(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield every weight under our name: float32, float16, or bfloat16 as uint16 bits; views of the files.

        Norm weights that the file stores as an offset from 1 come as float32 with the 1 added.
        """
        for tensor in self._names:
            yield from self._weights_of(tensor)

    def pieces(self) -> Iterator[tuple[str, int, NDArray[Any]]]:
        """Yield every weight in pieces of whole rows: our name, the piece's first row, and its values.

        A piece's memory is given back when the next one is asked for.
        """
        for tensor in self._names:
            for name, values in self._weights_of(tensor):
                for first_row, piece in _pieces(values, _PACKED_AT_ONCE):
                    yield name, first_row, piece
                    self._files.release(tensor)

    def check_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Raise CheckpointError for a tokenizer with ids that the model lacks; the other way round is padding."""
        size = self.config.vocab_size
        for token_id in range(size, tokenizer.vocab_size):
            if (token := tokenizer.token_text(token_id)) not in self._architecture.foreign_tokens:
                raise CheckpointError(
                    f"{self.folder / 'tokenizer.json'}: token {shown(token)} has id {token_id}; by vocab_size in "
                    f"config.json it must be from 0 to {size - 1}"
                )

    def find_not_finite(self) -> str | None:
        """Name the first tensor that holds a value that is not finite, and its file; reads up to all weights."""
        for tensor in self._names:
            for _, values in self._weights_of(tensor):
                for _, piece in _pieces(values, _PACKED_AT_ONCE):
                    if not np.isfinite(to_float32(piece)).all():
                        return f"{self._files.path(tensor)}: tensor {tensor!r} holds NaN or an infinity"
                    self._files.release(tensor)
        return None

    def identity(self) -> str:
        """Return what is digested of the configuration: all but the length of the context."""
        return repr(replace(self.config, max_position=0))

    def file_states(self) -> list[FileState]:
        """Return the states in which the files of the weights were opened, in the order of their paths."""
        return self._files.states()

    def weights_digest(self) -> str:
        """Return a SHA-256 over the configuration and every weight's name, dtype, shape and bytes.

        How the tensors are spread over files does not matter, nor does the length of the context by itself.
        """
        total = hashlib.sha256(self.identity().encode())
        weights = [(tensor, *weight) for tensor in self._names for weight in self._weights_of(tensor)]
        weights.sort(key=lambda item: item[1])
        with ThreadPoolExecutor() as pool:
            for digest in pool.map(lambda item: self._digest(*item), weights):
                total.update(digest)
        return total.hexdigest()

    def _weights_of(self, tensor: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """The weights that one tensor of the files holds."""
        shapes, names = weight_shapes(self.config), self._names[tensor]
        ends = np.cumsum([shapes[name][0] for name in names])
        for name, values in zip(names, np.split(self._files.tensor(tensor), ends[:-1]), strict=True):
            is_offset = self._architecture.norms_are_offsets and name.endswith("norm")
            yield name, np.float32(1.0) + to_float32(values) if is_offset else values

    def _digest(self, tensor: str, name: str, values: NDArray[Any]) -> bytes:
        digest = hashlib.sha256(f"{name} {values.dtype.str} {values.shape}\n".encode())
        for _, piece in _pieces(values, _DIGESTED_AT_ONCE):
            digest.update(np.ascontiguousarray(piece).data)
            self._files.release(tensor)
        return digest.digest()


def _pieces(values: NDArray[Any], most_bytes: int) -> Iterator[tuple[int, NDArray[Any]]]:
    rows = max(1, most_bytes // max(1, values[:1].nbytes))
    for first_row in range(0, len(values), rows):
        yield first_row, values[first_row : first_row + rows]


def _untie(config: ModelConfig, files: TensorFiles) -> ModelConfig:
    """Follow transformers where a tied checkpoint holds an output matrix of its own: it counts if it differs."""
    if not config.tied_embeddings or _HEAD not in files or _EMBEDDING not in files:
        return config
    return replace(config, tied_embeddings=np.array_equal(files.tensor(_HEAD), files.tensor(_EMBEDDING)))


def _match_names(architecture: Architecture, config: ModelConfig, files: TensorFiles) -> dict[str, tuple[str, ...]]:
    """Return our names for every tensor to load; raises CheckpointError unless all are there and no other is."""
    shapes = weight_shapes(config)
    known = expand_names(architecture, config.num_layers)
    wanted = {file_name: names for file_name, names in known.items() if shapes.keys() >= {*names}}
    for file_name, names in wanted.items():
        if file_name not in files:
            raise CheckpointError(f"{files.folder}: tensor {file_name!r} is missing; {config.architecture} needs it")
        expected = (sum(shapes[name][0] for name in names), *shapes[names[0]][1:])
        if files.shape(file_name) != expected:
            raise CheckpointError(
                f"{files.path(file_name)}: tensor {file_name!r} has shape {[*files.shape(file_name)]}; "
                f"by config.json it must be {[*expected]}"
            )
    ignored = {_HEAD} if config.tied_embeddings else set()
    for file_name in files:
        if file_name not in wanted and file_name not in ignored and not file_name.endswith(_RECOMPUTED):
            raise CheckpointError(
                f"{files.path(file_name)}: tensor {file_name!r} has no place in {config.architecture} as config.json "
                "describes it"
            )
    return wanted
