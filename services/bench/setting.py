"""Setting: what `outrider bench` measures, and how often."""

import random
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path

from services.cli.service_pair import CoreAssignment, ModelPair, options_of_draft
from services.engine.config import CPU, ConfigError, EngineConfig, resolve_isa, resolve_threads
from services.engine.hub.hub_name import ModelSource

PLACEMENTS = {"shared": CoreAssignment.shared, "apart": CoreAssignment.apart}
_LEAST = {"context": 1, "runs": 1, "rounds": 1, "prompt_tokens": 1, "new_tokens": 2, "streams": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Sizes are in tokens."""

    models: ModelPair
    weights: str = "bf16"
    draft_weights: str = "bf16"
    kv: str = "bf16"
    device: str = CPU
    draft_device: str | None = None  # default: the target's
    threads: int | None = None  # of each service; default: one for each core that it has
    context: int = 256  # before the rows of a pass
    runs: int = 100  # timings of each pass
    rounds: int = 5  # answers in each way
    prompt_tokens: int = 128
    new_tokens: int = 128
    draft_lengths: Seq[int] = (3, 5, 8)
    streams: int = 8  # at once
    placements: Seq[str] = ("shared", "apart")

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if (value := getattr(self, name)) < least:
                raise ConfigError(f"{name} is {value}; it must be at least {least}")
        if any(length < 1 for length in self.draft_lengths):
            raise ConfigError(f"draft_lengths are {', '.join(map(str, self.draft_lengths))}; each must be at least 1")
        if unknown := set(self.placements) - PLACEMENTS.keys():
            raise ConfigError(f"placements are {', '.join(unknown)}; each must be one of {', '.join(PLACEMENTS)}")

    @property
    def placements_in_use(self) -> list[str]:
        """The placements to measure: without a draft there is nothing for the target to be apart from."""
        return [name for name in self.placements if self.models.draft or name == "shared"]

    def summary(self) -> dict[str, object]:
        """The setting as it is saved, with the models' names in place of their paths."""
        models = {"target": _name(self.models.target), "draft": _name(self.models.draft) if self.models.draft else None}
        return {**asdict(self), "models": models}

    def engine_config(self, *, of_draft: bool = False) -> EngineConfig:
        """One of the models on its device and all cores, for one sequence.

        Raises ConfigError for a value that cannot be, and where the draft is wanted and there is none.
        """
        model = self.models.draft if of_draft else self.models.target
        if model is None:
            raise ConfigError("models has no draft")
        return EngineConfig(
            model=model,
            device=self.device_of(of_draft),
            isa=resolve_isa(),
            threads=resolve_threads(self.threads),
            weights=self.draft_weights if of_draft else self.weights,
            kv=self.kv,
            max_sequences=1,
        )

    def service_options(self, *, of_draft: bool = False) -> list[str]:
        """Options of a service's command."""
        threads = [] if self.threads is None else ["--threads", str(self.threads)]
        own = ["--device", self.device, "--weights", self.weights]
        if of_draft:
            own = options_of_draft(self.device, self.device_of(draft=True), self.draft_weights)
        return [*own, "--kv", self.kv, *threads]

    def device_of(self, draft: bool) -> str:
        """The device of the target, or of the draft."""
        return self.draft_device or self.device if draft else self.device

    def prompts(self, vocab_size: int, count: int) -> list[list[int]]:
        """Random ids, the same at every call; those of the lowest ids, where special tokens are, are left out."""
        draw = random.Random(0)
        first = min(256, vocab_size // 2)
        return [[draw.randrange(first, vocab_size) for _ in range(self.prompt_tokens)] for _ in range(count)]


def _name(model: ModelSource) -> str:
    return model.name if isinstance(model, Path) else str(model)
