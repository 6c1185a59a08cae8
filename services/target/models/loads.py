"""Loads: counts how often a model was loaded and unloaded, and how long that took."""


class Loads:
    """The counts of one model, for metrics."""

    def __init__(self) -> None:
        self.num_loads, self.num_unloads = 0, 0
        self.seconds = 0.0  # of all loads

    def loaded(self, seconds: float) -> None:
        """Count a load that took `seconds`."""
        self.num_loads += 1
        self.seconds += seconds

    def unloaded(self) -> None:
        """Count one unloading."""
        self.num_unloads += 1
