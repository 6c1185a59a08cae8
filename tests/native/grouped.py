"""Random matrices of every kind that was given as integers in groups."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import Device
from services.engine.decoder.native.testing import PackedWeight
from services.engine.gguf.block_groups import BLOCK_GROUPS
from services.engine.gguf.grouped_rows import GroupedKind, GroupedRows

KINDS = sorted({groups.kind for groups in BLOCK_GROUPS.values()})


def random_rows(kind: GroupedKind, outputs: int, inputs: int, seed: int = 0) -> GroupedRows:
    """Rows whose values are near 1; scales are of either sign, some of them subnormal or zero."""
    rng = np.random.default_rng(seed)
    low, high = (-128, 127) if kind.format == "int8" else (0, 15) if kind.has_offsets else (-8, 7)
    has_steps = kind.block > kind.group

    def units() -> NDArray[np.float16]:
        scales = rng.standard_normal((outputs, inputs // kind.block)) / high / (16 if has_steps else 1)
        return (scales * rng.choice([1.0, 1.0, 1.0, 2.0**-12, 0.0], scales.shape)).astype(np.float16)

    def steps() -> NDArray[np.int8]:
        return rng.integers(-32, 32, (outputs, inputs // kind.group), dtype=np.int8)

    return GroupedRows(
        numbers=rng.integers(low, high + 1, (outputs, inputs), dtype=np.int8),
        scales=units(),
        offsets=units() if kind.has_offsets else None,
        steps=steps() if has_steps else None,
        offset_steps=steps() if has_steps and kind.has_offsets else None,
    )


def arrays(rows: GroupedRows, first: int = 0, end: int | None = None) -> dict[str, Any]:
    """What `store_groups` and `load_groups` take of some rows."""
    return {name: values[first:end] for name, values in rows.arrays().items()}


def new_weight(device: Device, kind: GroupedKind, outputs: int, inputs: int) -> PackedWeight:
    return PackedWeight(device, kind.format, outputs, inputs, kind[1:])


def packed(device: Device, kind: GroupedKind, rows: GroupedRows) -> PackedWeight:
    weight = new_weight(device, kind, *rows.numbers.shape)
    weight.store_groups(0, **arrays(rows))
    return weight
