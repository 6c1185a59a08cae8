"""ScaleGrid: the scales of a matrix: one for all weights, or one for each row, group or block."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.integer_matrix import Groups, even_groups
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.checkpoint.safetensors_file import FLOATS, to_float32

Block = tuple[int, int]
"""Outputs and inputs that share a scale."""


@dataclass(frozen=True, slots=True)
class ScaleGrid:
    """Scales, or zero points, of one matrix; `grid` is their shape as rows and columns."""

    parts: Parts
    part: str
    grid: tuple[int, int]
    block: Block

    def of_rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Return the scales of some rows.  # [rows, columns of the grid]"""
        values = self.parts.tensor(self.part).reshape(self.grid)
        return to_float32(values[np.arange(begin, end) // self.block[0]])

    def groups(self, in_features: int) -> Groups:
        """Return a function for the grid's column of each input."""
        return even_groups(in_features, self.block[1])


def read_grid(parts: Parts, part: str, shape: tuple[int, int], blocks: tuple[Block, ...] = ()) -> ScaleGrid:
    """Return the grid that a part of scales forms, by its shape; `blocks` are sizes that quantization_config names.

    Raises CheckpointError if its shape fits none.
    """
    found, (outputs, inputs) = parts.require(part, FLOATS), shape
    for rows, columns in blocks:
        if found == (grid := (-(-outputs // rows), -(-inputs // columns))):
            return ScaleGrid(parts, part, grid, (rows, columns))
    if found in ((), (1,), (1, 1)):
        return ScaleGrid(parts, part, (1, 1), shape)
    if found in ((outputs,), (outputs, 1)):
        return ScaleGrid(parts, part, (outputs, 1), (1, inputs))
    if len(found) == 2 and found[0] == outputs and found[1] > 0 and inputs % found[1] == 0:
        return ScaleGrid(parts, part, (outputs, found[1]), (1, inputs // found[1]))
    grids = [f"[{-(-outputs // rows)}, {-(-inputs // columns)}]" for rows, columns in blocks]
    allowed = " or ".join(["[1]", f"[{outputs}, 1]", f"[{outputs}, a number that divides {inputs}]", *grids])
    raise parts.error(part, f"has shape {[*found]}; for a matrix of {[*shape]} it must be {allowed}")
