"""What is reported of GPUs, and what one computes."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.config import WEIGHT_FORMATS
from services.engine.decoder.native import (
    Decoder,
    DecoderConfig,
    Device,
    DeviceError,
    cuda_devices,
    cuda_problem,
)
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.devices import DEVICES, EMULATION, GPU, emulated_device, make_device, needs_emulation, on_cuda
from tests.native.harness.random_adapters import random_updates
from tests.native.harness.random_models import MODELS, PLAIN, PagedDecoder, random_tokens

needs_gpu = pytest.mark.skipif(GPU not in DEVICES, reason=f"nothing ran on a GPU: {cuda_problem()}")


def test_either_gpus_or_a_problem_are_reported():
    assert bool(cuda_devices()) != bool(cuda_problem())
    assert all(name.startswith("cuda-sm_") for name in cuda_devices())


def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(DeviceError, match="CUDA"):
        Device.cuda(1000, threads=1)


@on_cuda
def test_heads_that_are_too_wide_are_refused_by_their_name(device_name):
    config = DecoderConfig(replace(PLAIN, head_dim=520))
    with pytest.raises(ValueError, match=r"^head_dim is 520; device cuda-\w+ handles at most 512$"):
        Decoder(make_device(device_name, threads=1), config, weights="bf16", kv="bf16", num_blocks=1)


@needs_emulation
def test_the_emulation_is_no_gpu():
    device = make_device(EMULATION, threads=2)
    assert (device.name, device.threads) == (EMULATION, 2)
    assert EMULATION not in cuda_devices()


@needs_gpu
def test_a_gpu_names_its_architecture():
    assert make_device(GPU, threads=1).name == cuda_devices()[0]


@needs_gpu
def test_too_little_memory_is_reported_in_figures():
    device = make_device(GPU, threads=1)
    with pytest.raises(DeviceError, match=r"too little memory: .* GiB asked for, .* GiB of .* GiB free"):
        Decoder(device, DecoderConfig(PLAIN), weights="bf16", kv="bf16", num_blocks=1 << 25)
    assert np.array_equal(make_logits(device, np.ones((1, 3), np.float32)).numpy(), [[1, 1, 1]])


@needs_gpu
@needs_emulation
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("weight_format", WEIGHT_FORMATS)
def test_a_gpu_gives_the_bits_that_the_emulation_gives(config, weight_format):
    """The kernels use IEEE operations, each in one order, and tensor cores, whose rule the emulation has."""
    tokens = random_tokens(config, 1, 100)
    rows = [(0, position) for position in range(100)]
    on_gpu, on_host = (
        PagedDecoder(config, device, weight_format, tokens=tokens).forward(rows)
        for device in (make_device(GPU, threads=1), like_the_gpu())
    )
    assert np.array_equal(on_gpu.view(np.uint32), on_host.view(np.uint32))


@needs_gpu
@needs_emulation
@pytest.mark.parametrize("weight_format", WEIGHT_FORMATS)
def test_a_gpu_computes_adapters_with_the_emulations_bits(weight_format):
    logits = []
    for device in (make_device(GPU, threads=1), like_the_gpu()):
        paged = PagedDecoder(PLAIN, device, weight_format, tokens=random_tokens(PLAIN, 3, 30))
        paged.batch.adapters[:] = [paged.decoder.add_adapter(0.5, random_updates(PLAIN, rank=9)), -1, 0]
        logits += [paged.forward([(sequence, 0) for sequence in (0, 1)]).copy()]
        logits += [paged.forward([(sequence, position) for position in range(30) for sequence in range(3)]).copy()]
    assert all(
        np.array_equal(on_gpu.view(np.uint32), on_host.view(np.uint32))
        for on_gpu, on_host in zip(logits[:2], logits[2:], strict=True)
    )


def like_the_gpu() -> Device:
    """An emulated device whose tensor cores are those of the GPU's generation."""
    is_ampere = cuda_devices()[0] in ("cuda-sm_80", "cuda-sm_86", "cuda-sm_87", "cuda-sm_89")
    return emulated_device(1, generation="ampere" if is_ampere else "hopper")
