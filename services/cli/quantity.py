"""Large numbers as people read them: three digits and a unit."""

from collections.abc import Sequence as Seq

_BYTES = ("B", "kB", "MB", "GB", "TB")  # in powers of 1000, as disks are sold
_COUNTS = ("", "thousand", "million", "billion", "trillion")


def byte_size(size: float) -> str:
    """A number of bytes, such as 1.12 GB."""
    return _with_unit(size, _BYTES)


def large_count(number: float) -> str:
    """A number of things, such as 494 million."""
    return _with_unit(number, _COUNTS).rstrip()


def _with_unit(value: float, units: Seq[str]) -> str:
    step = 0
    while value >= 999.5 and step < len(units) - 1:
        value, step = value / 1000, step + 1
    return f"{value:.3g} {units[step]}"
