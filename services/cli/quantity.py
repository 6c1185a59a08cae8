"""Large numbers for people to read: three digits and a unit."""

from collections.abc import Sequence as Seq

_BYTES = ("B", "kB", "MB", "GB", "TB")  # powers of 1000
_COUNTS = ("", "thousand", "million", "billion", "trillion")


def byte_size(size: float) -> str:
    """Return a number of bytes as text, such as 1.12 GB."""
    return _with_unit(size, _BYTES)


def large_count(number: float) -> str:
    """Return a count as text, such as 494 million."""
    return _with_unit(number, _COUNTS).rstrip()


def _with_unit(value: float, units: Seq[str]) -> str:
    step = 0
    while value >= 999.5 and step < len(units) - 1:
        value, step = value / 1000, step + 1
    return f"{value:.3g} {units[step]}"
