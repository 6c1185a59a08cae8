"""MemoryCurve: the memory of one process over time, which must not grow."""

from statistics import median

_WARM_UP = 0.3  # of the samples; as many are compared with the last ones
_SHARE, _BYTES = 1.05, 20 << 20  # may be added
_MIB = 1 << 20


class MemoryCurve:
    """Samples at equal intervals; the medians of an early and of the last part are compared."""

    def __init__(self) -> None:
        self._samples: list[int] = []

    def add(self, num_bytes: int) -> None:
        """Add one sample."""
        self._samples.append(num_bytes)

    @property
    def early(self) -> float:
        """What it held once it was warm, in bytes."""
        length = self._part_length
        return median(self._samples[length : 2 * length])

    @property
    def late(self) -> float:
        """What it held in the end, in bytes."""
        return median(self._samples[-self._part_length :])

    @property
    def _part_length(self) -> int:
        return max(1, int(len(self._samples) * _WARM_UP))

    def problems(self) -> list[str]:
        """Whether it has grown by more than a twentieth and 20 MiB, or was watched too little to tell."""
        if len(self._samples) < 10:
            return [f"only {len(self._samples)} samples of its memory"]
        return [f"its memory grew: {self}"] if self.late > self.early * _SHARE + _BYTES else []

    def __str__(self) -> str:
        if len(self._samples) < 10:
            return f"{len(self._samples)} samples"
        early, late = self.early / _MIB, self.late / _MIB
        return f"{early:.1f} MiB once warm, {late:.1f} MiB in the end, {len(self._samples)} samples"
