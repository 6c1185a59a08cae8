"""GroupedRows: rows of a matrix as integers in groups, with the scales that were given with them."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class GroupedKind(NamedTuple):
    """How such a matrix is held; what a native decoder takes as the kind of a weight."""

    format: str  # "int8", or "int4": numbers from -8 to 7, and with offsets from 0 to 15
    group: int  # inputs that share a scale
    block: int  # inputs that share the unit of their scales: as many, or several groups
    has_offsets: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedRows:
    """A value is scale * number + offset, exactly; where a block has several groups, a scale and an offset are their
    group's step times their block's.
    """

    numbers: NDArray[np.int8]  # [rows, inputs]
    scales: NDArray[np.float16]  # [rows, blocks]
    offsets: NDArray[np.float16] | None = None  # likewise
    steps: NDArray[np.int8] | None = None  # [rows, groups]
    offset_steps: NDArray[np.int8] | None = None  # likewise

    @property
    def size(self) -> int:
        """How many values they stand for."""
        return self.numbers.size

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that there are, by name: what a native decoder takes."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in found.items() if array is not None}

    def values(self) -> NDArray[np.float32]:
        """What the numbers stand for.  # [rows, inputs]"""
        scales = _of_groups(self.scales, self.steps)
        numbers = self.numbers.reshape(*scales.shape, -1)
        values = numbers * scales[..., None]
        if self.offsets is not None:
            values += _of_groups(self.offsets, self.offset_steps)[..., None]
        return values.reshape(self.numbers.shape)


def _of_groups(units: NDArray[np.float16], steps: NDArray[np.int8] | None) -> NDArray[np.float32]:
    scales = units.astype(np.float32)
    return scales if steps is None else np.repeat(scales, steps.shape[1] // scales.shape[1], axis=1) * steps
