"""SpeculationSeconds: what predictions that the server chose saved, as it came and as it was expected."""

from dataclasses import dataclass


@dataclass(slots=True)
class SpeculationSeconds:
    """Sums over the steps in which predictions for sequences with AUTO were expected to pay."""

    taken: float = 0.0
    """The steps' time."""

    plain: float = 0.0
    """The time that their tokens would have taken without predictions."""

    expected: float = 0.0
    """The same, as expected before the steps."""

    def add(self, taken: float, plain: float, expected_speedup: float) -> None:
        """Add one step."""
        self.taken += taken
        self.plain += plain
        self.expected += expected_speedup * taken
