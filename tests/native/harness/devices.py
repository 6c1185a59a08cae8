"""The devices that the native tests run on: each instruction set, the CUDA kernels on the host, and a GPU."""

import importlib.util
from collections import Counter
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from services.engine.config import CPU_KV_FORMATS, CPU_WEIGHT_FORMATS, KV_FORMATS, WEIGHT_FORMATS
from services.engine.decoder.native import Device, cuda_devices, isas

EMULATION, GPU = "cuda-emulated", "cuda"
Generation = Literal["ampere", "hopper", "blackwell"]
Floats = NDArray[np.float32]
_EMULATION_MODULE = "services.engine.decoder.native._cuda_emulation"


def _is_built() -> bool:
    return importlib.util.find_spec(_EMULATION_MODULE) is not None


DEVICES = [*isas(), *([EMULATION] if _is_built() else []), *([GPU] if cuda_devices() else [])]

needs_emulation = pytest.mark.skipif(
    EMULATION not in DEVICES, reason="the module was built without -C cmake.define.OUTRIDER_TESTING=ON"
)


def make_device(name: str, threads: int) -> Device:
    """A new device of one of the names in DEVICES."""
    if name == EMULATION:
        return emulated_device(threads)
    return Device.cuda(0, threads) if name == GPU else Device.cpu(name, threads)


def emulated_device(
    threads: int,
    memory: int = 0,
    multiprocessors: int = 6,
    generation: Generation = "hopper",
    block_memory: int = 227,
) -> Device:
    """The CUDA device on the host, with so many MiB of memory, or plenty, and KiB for each block of threads.

    With so few multiprocessors small matrices meet every shape of a product.
    """
    module = importlib.import_module(_EMULATION_MODULE)
    device: Device = module.device(threads, memory, multiprocessors, generation, block_memory)
    return device


def multiply_add(generation: str, left: Floats, right: Floats, sums: Floats) -> Floats:
    """What an emulated tensor core computes of bf16 values.  # [16, 16], [16, 8], [16, 8] -> [16, 8]"""
    result: Floats = importlib.import_module(_EMULATION_MODULE).multiply_add(generation, left, right, sums)
    return result


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


def count_arrivals() -> int:
    """Parts of attentions that emulated devices have merged so far."""
    count: int = importlib.import_module(_EMULATION_MODULE).count_arrivals()
    return count


def count_launches() -> Counter[str]:
    """Launches of each kernel of blocks on emulated devices so far, by its type."""
    return Counter(importlib.import_module(_EMULATION_MODULE).count_launches())


def is_cuda(name: str) -> bool:
    return name.startswith("cuda")


on_cpus = pytest.mark.parametrize("device_name", isas())
on_cuda = pytest.mark.parametrize("device_name", [name for name in DEVICES if is_cuda(name)])


def in_weight_formats(*formats: str) -> pytest.MarkDecorator:
    """Run the test on every device, in those of these formats of weights that the device holds."""
    pairs = [(name, each) for name in DEVICES for each in formats if is_cuda(name) or each in CPU_WEIGHT_FORMATS]
    return pytest.mark.parametrize(("device_name", "weight_format"), pairs)


def in_kv_formats(*formats: str) -> pytest.MarkDecorator:
    """Run the test on every device, in those of these formats of keys and values that the device holds."""
    pairs = [(name, each) for name in DEVICES for each in formats if is_cuda(name) or each in CPU_KV_FORMATS]
    return pytest.mark.parametrize(("device_name", "kv_format"), pairs)


in_every_cpu_format = pytest.mark.parametrize(
    ("device_name", "weight_format"), [(name, each) for name in isas() for each in CPU_WEIGHT_FORMATS]
)
in_every_weight_format = in_weight_formats(*WEIGHT_FORMATS)
in_every_kv_format = in_kv_formats(*KV_FORMATS)
