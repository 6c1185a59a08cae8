"""VitalSigns: all figures of one setting."""

import os
import platform
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from services.bench.contender import AUTO, PLAIN, Contender
from services.bench.decoder_figures import DecoderFigures, measure_decoder
from services.bench.service_figures import ServiceFigures, measure_services
from services.bench.setting import Setting
from services.engine.config import EngineConfig
from services.engine.decoder.native import BUILD_ID
from services.engine.loaded_model import LoadedModel


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine on which the figures were measured."""

    processor: str
    cores: int
    isa: str
    build: str

    @classmethod
    def of(cls, setting: Setting) -> "Machine":
        """Return this machine, with the instruction set of the setting."""
        return cls(_processor(), len(os.sched_getaffinity(0)), setting.engine_config().isa, BUILD_ID)


@dataclass(frozen=True, slots=True)
class VitalSigns:
    """All figures, measured in one run."""

    machine: Machine
    setting: Mapping[str, object]
    target: DecoderFigures
    draft: DecoderFigures | None
    services: Mapping[str, ServiceFigures]  # by placement
    plan_fractions: Mapping[str, float]  # by way, on shared cores: its rate / the best `plan_rate`


def measure(setting: Setting, *, peers: Seq[Contender] = (), say: Callable[[str], None], log: IO[str]) -> VitalSigns:
    """Measure the decoders in this process, then the services; on shared cores in turn with the peers.

    `say` is given a line of progress before each part; the services log to `log`. Raises CheckpointError, ConfigError,
    ServiceFailedError and OutriderError.
    """
    say("the target's decoder …")
    target, vocabulary = _measure_model(setting, setting.engine_config())
    draft = None
    if setting.models.draft is not None:
        say("the draft's decoder …")
        draft, _ = _measure_model(setting, setting.engine_config(of_draft=True))
    services = {}
    for placement in setting.placements_in_use:
        say(f"the services, {placement} …")
        beside = peers if placement == "shared" else ()
        services[placement] = measure_services(setting, placement, vocabulary=vocabulary, peers=beside, log=log)
    return VitalSigns(
        machine=Machine.of(setting),
        setting=setting.summary(),
        target=target,
        draft=draft,
        services=services,
        plan_fractions=_plan_fractions(target, draft, services.get("shared")),
    )


def _measure_model(setting: Setting, config: EngineConfig) -> tuple[DecoderFigures, str]:
    """Return the figures and the fingerprint of the vocabulary; the model is freed afterwards."""
    model = LoadedModel.load(config)
    return measure_decoder(model, context=setting.context, runs=setting.runs), model.tokenizer.fingerprint()


def _plan_fractions(
    target: DecoderFigures, draft: DecoderFigures | None, shared: ServiceFigures | None
) -> dict[str, float]:
    if draft is None or shared is None:
        return {}
    fixed = [way.passes.by_position for name, way in shared.ways.items() if way.passes and name != AUTO.name]
    best = plan_rate(target.medians, draft.medians[1], max(fixed, key=len))
    return {name: way.rate.median / best for name, way in shared.ways.items() if name != PLAIN.name}


def plan_rate(pass_seconds: Mapping[int, float], draft_step: float, by_position: Seq[float]) -> float:
    """Return the best possible tokens per second: the maximum over K of E(K) / (v(K+1)·T + K·d).

    `pass_seconds` is v(m)·T, the time of a pass by its number of rows, interpolated linearly; `draft_step` is d.
    `by_position[i]` is how often the first i + 1 predictions of a pass are accepted, and E(K) = 1 + the sum of its
    first K values, the expected tokens of a pass.
    """
    rows = sorted(pass_seconds)
    times = [pass_seconds[number] for number in rows]

    def rate(num_predictions: int) -> float:
        expected = 1 + sum(by_position[:num_predictions])
        verifying = float(np.interp(num_predictions + 1, rows, times))
        return expected / (verifying + num_predictions * draft_step)

    return max(map(rate, range(len(by_position) + 1)))


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
