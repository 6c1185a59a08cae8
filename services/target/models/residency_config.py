"""ResidencyConfig: what may be in memory at once, and for how long when nobody asks for it."""

from dataclasses import dataclass

from services.engine.config import check_range

_MOST_BYTES = 1 << 50
_SHORTEST, _LONGEST = 0.1, 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidencyConfig:
    """By default all models are loaded at the start, and stay; raises ConfigError for what cannot be."""

    memory_budget: int | None = None  # bytes of weights and KV caches of all that are loaded at once
    load_on_demand: bool = False  # whether at the start only the first is loaded
    unload_after: float | None = None  # seconds after which a model that nobody asks for is unloaded
    least_stay: float = 10.0  # seconds that a model which is asked for stays before it makes way for another

    def __post_init__(self) -> None:
        if self.memory_budget is not None:
            check_range("memory_budget", self.memory_budget, 1, _MOST_BYTES)
        if self.unload_after is not None:
            check_range("unload_after", self.unload_after, _SHORTEST, _LONGEST)
