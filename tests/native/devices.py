"""The devices that the native tests run on: each instruction set, the CUDA kernels on the host, and a GPU."""

import importlib.util

import pytest

from services.engine.config import CPU_KV_FORMATS, CPU_WEIGHT_FORMATS, KV_FORMATS, WEIGHT_FORMATS
from services.engine.decoder.native import Device, cuda_devices, isas

EMULATION, GPU = "cuda-emulated", "cuda"
_EMULATION_MODULE = "services.engine.decoder.native._cuda_emulation"


def _is_built() -> bool:
    return importlib.util.find_spec(_EMULATION_MODULE) is not None


DEVICES = [*isas(), *([EMULATION] if _is_built() else []), *([GPU] if cuda_devices() else [])]

needs_emulation = pytest.mark.skipif(
    EMULATION not in DEVICES, reason="the module was built without -C cmake.define.OUTRIDER_CUDA_EMULATION=ON"
)


def make_device(name: str, threads: int) -> Device:
    """A new device of one of the names in DEVICES."""
    if name == EMULATION:
        return emulated_device(threads)
    return Device.cuda(0, threads) if name == GPU else Device.cpu(name, threads)


def emulated_device(threads: int, memory: int = 0) -> Device:
    """The CUDA device on the host, with so many MiB of memory, or plenty."""
    device: Device = importlib.import_module(_EMULATION_MODULE).device(threads, memory)
    return device


def count_replays() -> int:
    """Recordings that emulated devices have run again so far."""
    count: int = importlib.import_module(_EMULATION_MODULE).count_replays()
    return count


def count_uploads() -> int:
    """Copies to emulated devices so far."""
    count: int = importlib.import_module(_EMULATION_MODULE).count_uploads()
    return count


def count_waits() -> int:
    """Times that the host has waited for emulated devices so far."""
    count: int = importlib.import_module(_EMULATION_MODULE).count_waits()
    return count


def is_cuda(name: str) -> bool:
    return name.startswith("cuda")


def skip_unless_weights_are_held(name: str, weight_format: str) -> None:
    """Skip the test where a device has no such format of weights."""
    if weight_format not in (WEIGHT_FORMATS if is_cuda(name) else CPU_WEIGHT_FORMATS):
        pytest.skip(f"{name} holds no weights in {weight_format}")


def skip_unless_kv_is_held(name: str, kv_format: str) -> None:
    """Skip the test where a device has no such format of keys and values."""
    if kv_format not in (KV_FORMATS if is_cuda(name) else CPU_KV_FORMATS):
        pytest.skip(f"{name} holds no keys and values in {kv_format}")
