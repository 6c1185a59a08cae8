"""Processors: what the matrix of equality runs on, by name: this machine's instruction sets, and its first GPU."""

from typing import Any

from services.engine.decoder.native import cuda_devices, isas

GPU = "cuda"
_DEVICE = "cuda:0"


def processors() -> list[str]:
    """All that this machine has, the best instruction set first."""
    return [*isas(), *([GPU] if cuda_devices() else [])]


def engine_settings(processor: str) -> dict[str, Any]:
    """Fields of an EngineConfig."""
    return {"isa": isas()[0], "device": _DEVICE} if processor == GPU else {"isa": processor}


def service_options(processor: str) -> tuple[str, ...]:
    """Options of a service's command."""
    return ("--device", _DEVICE) if processor == GPU else ("--isa", processor)


def device_name(processor: str) -> str:
    """The device's name in the fingerprint of a server there."""
    return cuda_devices()[0] if processor == GPU else f"cpu-{processor}"
