"""Checkpoint: a Hugging Face folder or a GGUF file, read as a ModelConfig and weights under our names."""

import hashlib
import math
import os
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.architectures.text_part import text_name
from services.engine.checkpoint.checkpoint_source import CheckpointSource
from services.engine.checkpoint.folder_source import read_folder
from services.engine.checkpoint.gguf.source import read_gguf
from services.engine.checkpoint.latent_tensors import whole_name
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.checkpoint.weight_shapes import Shape, weight_shapes
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.file_state import FileState
from services.engine.files.json_fields import shown
from services.engine.gguf.gguf_file import is_gguf
from services.engine.text.tokenizer import Tokenizer

_PACKED_AT_ONCE = 16 << 20  # bytes in float32: enough work for all threads, and little memory beside the weights
_DIGESTED_AT_ONCE = 2 << 20  # bytes that each thread digests in one piece


def load_checkpoint(path: str | os.PathLike[str], *, context_length: int | None = None) -> "Checkpoint":
    """Read and check the configuration of a folder or GGUF file, and the names and shapes of its weights; not the data.

    `context_length` is the context to serve, which also selects the rotary scaling; by default it is the checkpoint's.
    Raises CheckpointError naming the file, field or tensor at fault.
    """
    path = Path(path)
    return Checkpoint((read_gguf if is_gguf(path) else read_folder)(path, context_length))


@dataclass(frozen=True, slots=True)
class _Weight:
    """The location of one weight: rows of a tensor, from `first` on."""

    tensor: str
    first: int
    shape: Shape


class Checkpoint:
    """One model: its configuration, its recommended sampling settings, and its weights on disk."""

    def __init__(self, source: CheckpointSource) -> None:
        self.path = source.path
        self.config = source.config
        self.generation = source.generation
        self.token_rules = source.token_rules
        self.forced_ids = source.forced_ids
        self.eos_token_ids = source.eos_token_ids
        self._source = source
        self._tensors = source.tensors
        self._weights = _find_weights(source)

    def read_mtp(self) -> "Checkpoint | None":
        """Return the layer for multi-token prediction as a drafter's checkpoint; None if there is none.

        Raises CheckpointError, naming the tensor at fault.
        """
        return None if self._source.read_mtp is None else Checkpoint(self._source.read_mtp())

    def weights(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield every weight under our name: float32, float16, or bfloat16 as uint16 bits; views of the files.

        Norm weights that the file stores as an offset from 1 come as float32 with the 1 added.
        """
        for name, weight in self._weights.items():
            yield name, self._values(name, 0, weight.shape[0])

    def matrices(self) -> dict[str, str]:
        """Return the type in which every matrix is stored, such as "BF16" or "Q4_K"."""
        return {name: self.kind(name) for name, weight in self._weights.items() if len(weight.shape) == 2}

    def shapes_in(self, tensor: str) -> dict[str, Shape]:
        """Return the shapes of the weights that a folder's tensor holds, in its order; multimodal or not."""
        names = self._source.folder_names.get(text_name(tensor), ())
        return {name: self._weights[name].shape for name in names if name in self._weights}

    def split_rows(self, tensor: str, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Split rows that are in the order of a folder's tensor among its weights, each in our order.

        # rows: [rows of the tensor, …]
        """
        if (order := self._source.folder_orders.get(text_name(tensor))) is not None:
            rows = rows[order]
        shapes = self.shapes_in(tensor)
        ends = np.cumsum([shape[0] for shape in shapes.values()])
        return dict(zip(shapes, np.split(rows, ends[:-1]), strict=True))

    def pieces(
        self, *, stored: Collection[str] = (), names: Collection[str] | None = None
    ) -> Iterator[tuple[str, int, NDArray[Any]]]:
        """Yield every weight in pieces of whole rows: our name, the piece's first row, and its values.

        With `names` these weights only. The values of the weights in `stored` are those of `stored_rows`. A piece's
        memory is released when the next piece is requested.
        """
        for name, weight in self._weights.items():
            if names is not None and name not in names:
                continue
            rows = self.stored_rows if name in stored else self._values
            for begin, end in _pieces(weight.shape[0], 4 * math.prod(weight.shape[1:]), _PACKED_AT_ONCE):
                yield name, begin, rows(name, begin, end)
                self._tensors.release(weight.tensor)

    def kind(self, name: str) -> str:
        """Return the type in which a weight is stored, such as "BF16" or "Q4_K"."""
        return self._tensors.kind(self._weights[name].tensor)

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows of a weight as they are stored, but in our order; norms stored as offsets stay offsets.

        # [rows, bytes of a row]
        """
        weight = self._weights[name]
        return self._tensors.stored_rows(weight.tensor, weight.first + begin, weight.first + end)

    def check_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Raise CheckpointError if the tokenizer has ids that the model lacks; the reverse is padding.

        Tokens that were added to the vocabulary may lie beyond the model's: such as that of images, where sizes of a
        family share a tokenizer, but not all of them read images. They are never drawn, and refused in prompts.
        """
        size = self.config.vocab_size
        for token_id in range(size, tokenizer.vocab_size):
            if not tokenizer.is_added(token_id):
                token = shown(tokenizer.token_text(token_id))
                raise CheckpointError(
                    f"{tokenizer.where}: token {token} has id {token_id}; by vocab_size in "
                    f"{self._source.described_by} it must be from 0 to {size - 1}"
                )

    def find_not_finite(self) -> str | None:
        """Return a message that names the first tensor with a value that is not finite; None if there is none.

        It reads all weights up to that one.
        """
        for name, _, piece in self.pieces():
            if not np.isfinite(to_float32(piece)).all():
                tensor = self._weights[name].tensor
                return f"{self._tensors.path(tensor)}: tensor {whole_name(tensor)!r} holds NaN or an infinity"
        return None

    def identity(self) -> str:
        """Return the part of the configuration that is digested: all but the context length."""
        return repr(replace(self.config, max_position=0))

    def recommendations(self) -> str:
        """Return the defaults of requests that come from the checkpoint, as one text."""
        by_name = (sorted(self.generation.items()), sorted(self.token_rules.items()))
        return repr((*by_name, self.forced_ids, self.eos_token_ids))

    def file_states(self) -> list[FileState]:
        """Return the states of the weights' files when they were opened, in the order of their paths."""
        return self._tensors.states()

    def weights_digest(self, cancelled: threading.Event | None = None) -> str:
        """Return a SHA-256 over the configuration and every weight's name, type, shape and bytes.

        It does not depend on how the tensors are spread over files, nor on the context length by itself. The files are
        read in their own order. Raises CancelledError once `cancelled` is set.
        """
        cancelled = cancelled or threading.Event()
        total = hashlib.sha256(f"{self.identity()} {self._source.norms_are_offsets}".encode())
        with ThreadPoolExecutor() as pool:
            found = pool.map(lambda name: self._digest(name, cancelled), self._weights)
            digests = dict(zip(self._weights, found, strict=True))
        for name in sorted(digests):
            total.update(digests[name])
        return total.hexdigest()

    def _values(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows of a weight as numbers.  # [rows, …]"""
        weight = self._weights[name]
        values = self._tensors.rows(weight.tensor, weight.first + begin, weight.first + end)
        is_offset = self._source.norms_are_offsets and name.endswith("norm")
        return np.float32(1.0) + to_float32(values) if is_offset else values

    def _digest(self, name: str, cancelled: threading.Event) -> bytes:
        weight = self._weights[name]
        digest = hashlib.sha256(f"{name} {self.kind(name)} {weight.shape}\n".encode())
        for begin, end in _pieces(weight.shape[0], 4 * math.prod(weight.shape[1:]), _DIGESTED_AT_ONCE):
            if cancelled.is_set():
                raise CancelledError
            digest.update(np.ascontiguousarray(self.stored_rows(name, begin, end)).data)
            self._tensors.release(weight.tensor)
        return digest.digest()


def _pieces(num_rows: int, row_bytes: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the first row of each piece, and the row after its last."""
    rows = max(1, most_bytes // row_bytes)
    for begin in range(0, num_rows, rows):
        yield begin, min(begin + rows, num_rows)


def _find_weights(source: CheckpointSource) -> dict[str, _Weight]:
    """Return the location of every weight, in the order of the files.

    Raises CheckpointError for a missing tensor, a wrong shape and an unknown tensor.
    """
    shapes, tensors, architecture = weight_shapes(source.config), source.tensors, source.config.architecture
    wanted = {tensor: names for tensor, names in source.names.items() if shapes.keys() >= {*names}}
    weights: dict[str, _Weight] = {}
    for tensor, names in wanted.items():
        if tensor not in tensors:
            raise CheckpointError(f"{source.path}: tensor {whole_name(tensor)!r} is missing; {architecture} needs it")
        expected = (sum(shapes[name][0] for name in names), *shapes[names[0]][1:])
        if tensors.shape(tensor) != expected:
            raise CheckpointError(
                f"{tensors.path(tensor)}: tensor {tensor!r} has shape {[*tensors.shape(tensor)]}; "
                f"by {source.described_by} it must be {[*expected]}"
            )
        first = 0
        for name in names:
            weights[name] = _Weight(tensor, first, shapes[name])
            first += shapes[name][0]
    for tensor in tensors:
        if tensor not in wanted and tensor not in source.ignored:
            raise CheckpointError(
                f"{tensors.path(tensor)}: tensor {tensor!r} has no place in {architecture} as {source.described_by} "
                "describes it"
            )
    return {name: weights[name] for tensor in tensors for name in wanted.get(tensor, ())}
