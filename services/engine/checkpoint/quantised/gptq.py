"""GPTQ's layout: numbers packed along the inputs, zero points along the outputs (AutoGPTQ's `QuantLinear.pack`).

A weight is scale * (number - zero). Files of the first version hold each zero point minus one; as in ExLlamaV2, adding
the one wraps around within the bits.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.integer_matrix import IntegerMatrix, even_groups, of_inputs
from services.engine.checkpoint.quantised.packed_numbers import WORD, unpack, words_of
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.checkpoint.safetensors_file import FLOATS
from services.engine.files.json_fields import JsonFields

_BITS = (2, 3, 4, 8)
_VERSIONS = {"gptq": 1, "gptq_v2": 0}


@dataclass(frozen=True, slots=True)
class Gptq:
    """The fields of quantization_config, which apply to all matrices."""

    bits: int
    group_size: int  # 0: all inputs are one group
    zero_offset: int
    is_reordered: bool

    name: ClassVar = "GPTQ"
    mains: ClassVar = {".qweight": ".weight"}
    reads: ClassVar = "2, 3, 4, 8 bits, groups of any size, zero points, `desc_act`, both versions"
    held: ClassVar = "exactly; reordered groups dequantised"

    @classmethod
    def read(cls, config: JsonFields) -> "Gptq":
        """Read quantization_config; raises CheckpointError for an unknown layout."""
        bits = config.integer("bits")
        if bits not in _BITS:
            raise config.error("bits", f"must be one of {', '.join(map(str, _BITS))}, is {bits}")
        version = config.choice("checkpoint_format", _VERSIONS, "gptq")
        group_size = config.integer("group_size", -1, minimum=-1)
        return cls(bits, max(group_size, 0), _VERSIONS[version], config.flag("desc_act", False))

    def matrix(self, parts: Parts) -> IntegerMatrix:
        """Return the matrix in these parts; raises CheckpointError naming the part at fault."""
        rows, outputs = parts.matrix("qweight", ("I32",))
        inputs, bits = rows * WORD // self.bits, self.bits
        num_groups = -(-inputs // self.group_size) if self.group_size else 1
        parts.expect("scales", FLOATS, (num_groups, outputs))
        parts.expect("qzeros", ("I32",), (num_groups, words_of(outputs, bits)))
        if self.is_reordered or "g_idx" in parts:
            group_of = parts.groups("g_idx", inputs, num_groups)
        else:
            group_of = even_groups(inputs, self.group_size or inputs)

        def zeros(begin: int, end: int) -> NDArray[np.int16]:  # [groups, outputs]
            stored = unpack(parts.tensor("qzeros"), bits, outputs)[:, begin:end].astype(np.int16)
            zeros: NDArray[np.int16] = np.bitwise_and(stored + np.int16(self.zero_offset), np.int16(2**bits - 1))
            return zeros

        def numbers(begin: int, end: int) -> NDArray[np.int16]:
            packed = parts.tensor("qweight")[:, begin:end]
            return unpack(packed.T, bits, inputs) - of_inputs(zeros(begin, end).T, group_of())

        def extremes() -> tuple[int, int]:
            every = zeros(0, outputs)
            return -int(every.max()), 2**bits - 1 - int(every.min())

        return IntegerMatrix(
            parts.named("qweight", "scales", "qzeros", "g_idx"),
            (outputs, inputs),
            numbers=numbers,
            scales=lambda begin, end: parts.floats_of("scales", begin, end),
            extremes=extremes,
            group_of=group_of,
        )
