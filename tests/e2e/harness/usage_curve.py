"""UsageCurve: how much of something a process holds over time, which must not grow."""

from statistics import linear_regression, median, quantiles

_WARM_UP = 0.3  # of the samples, which do not count
_FEW = 10  # samples, too few for a line
MIB = 1 << 20


class UsageCurve:
    """Samples at equal intervals. A line is fitted to those after the warm-up; its rise from beginning to end is the
    growth, and the range that holds four fifths of the distances from it is the noise.

    It is flat where the growth is no more than the noise and a small allowance together: what leaks a little all the
    time is seen the sooner the longer the run is, and what merely goes up and down is not taken for a leak.
    """

    def __init__(self, name: str, *, allowance: float, unit: float = 1.0) -> None:
        """`allowance` is in units, as all figures are."""
        self.name = name
        self._allowance, self._unit = allowance, unit
        self._samples: list[float] = []

    def add(self, amount: float) -> None:
        """Add one sample."""
        self._samples.append(amount / self._unit)

    @property
    def growth(self) -> float:
        """The rise of the line."""
        return self._slope * (len(self._warm) - 1)

    @property
    def noise(self) -> float:
        """The range of four fifths of the distances from the line."""
        distances = [amount - self._slope * index for index, amount in enumerate(self._warm)]
        tenths = quantiles(distances, n=10, method="inclusive")
        return tenths[-1] - tenths[0]

    def problems(self) -> list[str]:
        """Whether it has grown, or has too few samples to show that it has not."""
        if len(self._samples) < _FEW:
            return [f"{self.name}: only {len(self._samples)} samples"]
        return [f"{self.name} grew: {self}"] if self.growth > self.noise + self._allowance else []

    def __str__(self) -> str:
        if len(self._samples) < _FEW:
            return f"{len(self._samples)} samples"
        middle, low, high = median(self._warm), min(self._warm), max(self._warm)
        return (
            f"{middle:.1f} (from {low:.1f} to {high:.1f}), growth {self.growth:+.2f}, noise {self.noise:.2f}, "
            f"allowed {self.noise + self._allowance:.2f}, {len(self._samples)} samples"
        )

    @property
    def _warm(self) -> list[float]:
        return self._samples[int(_WARM_UP * len(self._samples)) :]

    @property
    def _slope(self) -> float:
        return linear_regression(range(len(self._warm)), self._warm).slope
