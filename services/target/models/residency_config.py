"""ResidencyConfig: how many models may be in memory at once, and how long idle ones stay."""

from dataclasses import dataclass

from services.engine.config import check_range

_MOST_BYTES = 1 << 50
_SHORTEST, _LONGEST = 0.1, 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidencyConfig:
    """By default all models are loaded at the start, and stay; raises ConfigError for values out of range."""

    memory_budget: int | None = None  # bytes of weights and KV caches of all loaded models
    load_on_demand: bool = False  # whether only the first model is loaded at the start
    unload_after: float | None = None  # seconds after which an idle model is unloaded
    least_stay: float = 10.0  # seconds that a busy model stays before it may be unloaded for another

    def __post_init__(self) -> None:
        if self.memory_budget is not None:
            check_range("memory_budget", self.memory_budget, 1, _MOST_BYTES)
        if self.unload_after is not None:
            check_range("unload_after", self.unload_after, _SHORTEST, _LONGEST)
