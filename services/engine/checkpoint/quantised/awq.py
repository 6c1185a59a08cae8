"""AWQ's layout for its GEMM kernel: numbers and zero points packed along the outputs, eight of 4 bits in a word.

The order within a word is AutoAWQ's (`WQLinear_GEMM`). A weight is scale * (number - zero).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.integer_matrix import IntegerMatrix, even_groups, of_inputs
from services.engine.checkpoint.quantised.packed_numbers import unpack
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.checkpoint.safetensors_file import FLOATS
from services.engine.files.json_fields import JsonFields

_BITS = 4
_PER_WORD = 8
_PLACES = np.array([0, 4, 1, 5, 2, 6, 3, 7])  # of each output in its word


@dataclass(frozen=True, slots=True)
class Awq:
    """The fields of quantization_config, which apply to all matrices."""

    group_size: int  # 0: all inputs are one group

    name: ClassVar = "AWQ"
    mains: ClassVar = {".qweight": ".weight"}
    reads: ClassVar = "4 bits for the GEMM kernel, with zero points"
    held: ClassVar = "exactly, a byte for each number"

    @classmethod
    def read(cls, config: JsonFields) -> "Awq":
        """Read quantization_config; raises CheckpointError for an unknown layout."""
        field = "bits" if "bits" in config else "w_bit"
        if (bits := config.integer(field, _BITS)) != _BITS:
            raise config.error(field, f"must be {_BITS}, is {bits}")
        config.choice("version", ("gemm", "GEMM"), "gemm")
        field = "group_size" if "group_size" in config else "q_group_size"
        return cls(max(config.integer(field, 128, minimum=-1), 0))

    def matrix(self, parts: Parts) -> IntegerMatrix:
        """Return the matrix in these parts; raises CheckpointError naming the part at fault."""
        inputs, words = parts.matrix("qweight", ("I32",))
        outputs, group_size = words * _PER_WORD, self.group_size or inputs
        num_groups = -(-inputs // group_size)
        parts.expect("qzeros", ("I32",), (num_groups, words))
        parts.expect("scales", FLOATS, (num_groups, outputs))
        group_of = even_groups(inputs, group_size)

        def columns(part: str, begin: int, end: int) -> NDArray[np.int16]:
            """Return some outputs of a part.  # [outputs, its rows]"""
            first = begin // _PER_WORD
            packed = parts.tensor(part)[:, first : -(-end // _PER_WORD)]
            each = unpack(packed, _BITS, packed.shape[1] * _PER_WORD).reshape(len(packed), -1, _PER_WORD)
            ordered = each[:, :, _PLACES].reshape(len(packed), -1).T
            return ordered[begin - first * _PER_WORD : end - first * _PER_WORD].astype(np.int16, order="C")

        def numbers(begin: int, end: int) -> NDArray[np.int16]:
            return columns("qweight", begin, end) - of_inputs(columns("qzeros", begin, end), group_of())

        def extremes() -> tuple[int, int]:
            zeros = columns("qzeros", 0, outputs)
            return -int(zeros.max()), 2**_BITS - 1 - int(zeros.min())

        return IntegerMatrix(
            parts.named("qweight", "scales", "qzeros"),
            (outputs, inputs),
            numbers=numbers,
            scales=lambda begin, end: parts.floats_of("scales", begin, end),
            extremes=extremes,
            group_of=group_of,
        )
