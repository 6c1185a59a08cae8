"""VitalSigns: all figures of one setting."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from services.cli.bench.contender import AUTO, PLAIN, Contender
from services.cli.bench.decoder_figures import DecoderFigures, measure_decoder
from services.cli.bench.plan import plan_rate
from services.cli.bench.service_figures import ServiceFigures, measure_services
from services.cli.bench.setting import Setting
from services.engine.config import EngineConfig
from services.engine.decoder.native import BUILD_ID
from services.engine.loaded_model import LoadedModel


@dataclass(frozen=True, slots=True)
class Machine:
    """What was measured on."""

    processor: str
    cores: int
    isa: str
    build: str

    @classmethod
    def of(cls, setting: Setting) -> "Machine":
        """This one."""
        return cls(_processor(), len(os.sched_getaffinity(0)), setting.engine_config().isa, BUILD_ID)


@dataclass(frozen=True, slots=True)
class VitalSigns:
    """Measured in one run."""

    machine: Machine
    setting: Mapping[str, object]
    target: DecoderFigures
    draft: DecoderFigures | None
    services: Mapping[str, ServiceFigures]  # by placement
    plan_fractions: Mapping[str, float]  # by way, on shared cores: its rate beside the best that the parts allow


def measure(
    setting: Setting, *, peers: Sequence[Contender] = (), say: Callable[[str], None], log: IO[str]
) -> VitalSigns:
    """Measure the decoders in this process, then the services, beside peers where cores are shared.

    The services' log goes to `log`. Raises CheckpointError, ConfigError, ServiceFailedError and OutriderError.
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
    """The figures, and the fingerprint of the vocabulary; the model's memory is free again."""
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


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
