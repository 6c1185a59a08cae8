"""Setting: what `outrider bench` measures, and how often."""

import argparse
import random
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from services.cli.service_pair import PLACEMENTS, ModelPair, device_of_draft, options_of_draft
from services.engine.config import CPU, ConfigError, EngineConfig, resolve_isa, resolve_threads
from services.engine.hub.hub_name import ModelSource

_LEAST = {"context": 1, "runs": 1, "rounds": 1, "prompt_tokens": 1, "new_tokens": 2, "streams": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Sizes are in tokens. Making one with a value out of range raises ConfigError."""

    models: ModelPair
    weights: str = "bf16"
    draft_weights: str = "bf16"
    kv: str = "bf16"
    device: str = CPU
    draft_device: str | None = None  # default: the target's
    threads: int | None = None  # of each service; default: one for each of its cores
    context: int = 256  # tokens before the rows of a pass
    runs: int = 100  # timings of each pass
    rounds: int = 5  # answers in each way
    prompt_tokens: int = 128
    new_tokens: int = 128
    draft_lengths: Seq[int] = (3, 5, 8)
    streams: int = 8  # concurrent answers
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
        """The placements to measure; without a draft there is only "shared"."""
        return [name for name in self.placements if self.models.draft or name == "shared"]

    def summary(self) -> dict[str, object]:
        """Return the setting as it is saved, with the models' names instead of their paths."""
        models = self.models
        sources = {"target": models.target, "draft": models.draft, "head": models.head}
        names = {role: _name(source) if source else None for role, source in sources.items()}
        return {**asdict(self), "models": names}

    def engine_config(self, *, of_draft: bool = False) -> EngineConfig:
        """Return the config of one model on its device with all cores, for one sequence.

        Raises ConfigError for an invalid value, and with `of_draft` if there is no draft.
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
        """Return the options for the command of a service."""
        threads = [] if self.threads is None else ["--threads", str(self.threads)]
        own = ["--device", self.device, "--weights", self.weights]
        if of_draft:
            own = options_of_draft(self.device, self.device_of(draft=True), self.draft_weights)
        return [*own, "--kv", self.kv, *threads]

    def device_of(self, draft: bool) -> str:
        """Return the device of the target, or of the draft."""
        return device_of_draft(self.device, self.draft_device) if draft else self.device

    def prompts(self, vocab_size: int, count: int) -> list[list[int]]:
        """Return prompts of random ids, the same at every call, without the lowest ids, which are special tokens."""
        draw = random.Random(0)
        first = min(256, vocab_size // 2)
        return [[draw.randrange(first, vocab_size) for _ in range(self.prompt_tokens)] for _ in range(count)]


def _name(model: ModelSource) -> str:
    return model.name if isinstance(model, Path) else str(model)


_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Setting)}
_COUNTS = {
    "context": "tokens before the rows of a pass",
    "runs": "timings of each pass",
    "rounds": "answers in each way",
    "prompt_tokens": "random tokens of each prompt",
    "new_tokens": "tokens of each answer, at least 2",
    "streams": "concurrent answers, at least 1",
}
_LISTS = {
    "draft_lengths": "fixed numbers of predictions in each pass",
    "placements": "how the two services share the cores; none: do not run them",
}


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all measuring commands share: the device, sizes and numbers."""
    parser.add_argument(
        "--device", default=CPU, help="device of the target: cpu, cuda:N, or cuda:N,cuda:M (%(default)s)"
    )
    for name, description in _COUNTS.items():
        default = _DEFAULTS[name]
        parser.add_argument(_flag(name), type=int, default=default, metavar="N", help=f"{description} (%(default)s)")
    for name, description in _LISTS.items():
        values: Seq[object] = _DEFAULTS[name]
        text = f"{description} (default: {' '.join(map(str, values))})"
        parser.add_argument(_flag(name), nargs="*", type=type(values[0]), default=values, help=text)


def read_setting(arguments: argparse.Namespace, **others: Any) -> Setting:  # noqa: ANN401 - as in Setting
    """Return the setting with these options; `others` are its remaining fields. Raises ConfigError for a bad value."""
    names = ("device", *_COUNTS, *_LISTS)
    values = {name: getattr(arguments, name) for name in names}
    if values["placements"] == ["none"]:
        values["placements"] = []
    return Setting(**values, **others)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
