"""Float8 as model vendors publish it: `weight` in e4m3, to be multiplied by `weight_scale_inv` or `weight_scale`.

There is one scale for the matrix, for each output or for each block.
"""

from dataclasses import dataclass
from typing import ClassVar

from services.engine.checkpoint.quantised.float8_matrix import Float8Matrix
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.checkpoint.quantised.scale_grid import Block, read_grid
from services.engine.files.json_fields import JsonFields, shown

_SCALES = ("weight_scale_inv", "weight_scale")


@dataclass(frozen=True, slots=True)
class Float8:
    """The fields of quantization_config, which apply to all matrices."""

    blocks: tuple[Block, ...]

    name: ClassVar = "float8"
    mains: ClassVar = {".weight": ".weight"}
    reads: ClassVar = "e4m3 with a scale for a matrix, each output or each block"
    held: ClassVar = "dequantised"

    @classmethod
    def read(cls, config: JsonFields) -> "Float8":
        """Read quantization_config; raises CheckpointError for an unknown layout."""
        config.choice("quant_algo", ("FP8",), "FP8")
        config.choice("fmt", ("e4m3",), "e4m3")
        config.choice("weight_scale_fmt", ("float",), "float")
        return cls(read_blocks(config, "weight_block_size"))

    def matrix(self, parts: Parts) -> Float8Matrix:
        """Return the matrix in these parts; raises CheckpointError naming the part at fault."""
        shape = parts.matrix("weight", ("F8_E4M3",))
        scales = next((part for part in _SCALES if part in parts), _SCALES[0])
        return Float8Matrix(parts, shape, read_grid(parts, scales, shape, self.blocks))


def read_blocks(config: JsonFields, field: str) -> tuple[Block, ...]:
    """Read the size of blocks, outputs and inputs, if there is one; raises CheckpointError."""
    match config.raw(field):
        case None:
            return ()
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return ((rows, columns),)
        case value:
            raise config.error(field, f"must be two whole numbers above 0, is {shown(value)}")
