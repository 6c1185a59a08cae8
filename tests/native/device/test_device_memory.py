"""A GPU's memory: errors give figures, the cache gets what is left, and nothing is allocated later."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.config import ConfigError, EngineConfig
from services.engine.decoder.native import BLOCK_SIZE, Batch, Device, DeviceError, ReadProbe, isas
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.loaded_model import LoadedModel
from tests.harness.further import further
from tests.harness.models.block_folders import block_tensors, deepspec_fields, markov_tensors, zlab_fields
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.drafter_folders import Tensors, drafter_tensors, original_fields, write_drafter
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.lora_folders import write_adapter
from tests.native.harness.devices import count_replays, emulated_device, needs_emulation
from tests.native.harness.sampling_reference import Settings

pytestmark = needs_emulation

MIB = 1 << 20
LIMITS = {"max_rows": 64, "max_sequences": 4}
EVERYTHING = Settings(top_k=5, top_p=0.9, repetition_penalty=1.2, num_candidates=4, rank=True, entropy=True)


@pytest.fixture
def load(monkeypatch):
    """Load a small model on a GPU of so many MiB."""

    def load(
        memory: int,
        *,
        model: Path | None = None,
        device: Device | None = None,
        loras: dict[str, Path] | None = None,
        **settings,
    ) -> LoadedModel:
        device = device or emulated_device(1, memory=memory)
        monkeypatch.setattr(EngineConfig, "open_devices", lambda config: [device])
        config = EngineConfig(
            model=model or random_checkpoint(Kind.LLAMA), isa=isas()[0], threads=1, **{**LIMITS, **settings}
        )
        return LoadedModel.load(config, loras=loras)

    return load


def test_the_host_has_no_memory_of_a_device():
    assert Device.cpu(isas()[0], 1).memory is None


def test_a_new_device_reports_all_its_memory_as_free():
    device = emulated_device(1, memory=3)
    assert device.memory == (3 * MIB, 3 * MIB)


def test_weights_too_large_for_memory_are_reported_in_figures(load):
    figures = (
        r"0\.00 billion parameters in bf16: CUDA device (\d+) has too little memory: .* GiB asked for, .* of 0\.00 GiB"
    )
    numbers = []
    for _ in range(2):
        with pytest.raises(DeviceError, match=figures) as caught:
            load(1)
        numbers += re.findall(figures, str(caught.value))
    assert int(numbers[1]) == int(numbers[0]) + 1, "emulated devices are numbered as they are made"


def test_a_cache_too_large_for_memory_is_reported_in_figures(load):
    with pytest.raises(ConfigError, match=r"gpu_memory_fraction is 0\.01; beside the weights .* 0 bytes are left"):
        load(64, gpu_memory_fraction=0.01)
    with pytest.raises(DeviceError, match="too little memory"):
        load(64, kv_blocks=10**6)


def test_states_take_their_memory_before_the_cache(load):
    folder = further_checkpoint(Further.QWEN3_5)
    model = load(60, model=folder, gpu_memory_fraction=0.75, max_sequences=LIMITS["max_rows"], context_length=4096)
    free, total = model.device.memory
    block_bytes = BLOCK_SIZE * model.decoder.kv_bytes_per_token
    assert total - free <= 0.75 * total < total - free + block_bytes
    refusal = r"^max_sequences is 64; the states of so many sequences and of cached prompts take \d+ bytes, but beside"
    with pytest.raises(ConfigError, match=refusal):
        load(32, model=folder, max_sequences=LIMITS["max_rows"], context_length=4096)


def test_the_cache_fills_the_fraction_that_others_leave(load):
    device = emulated_device(1, memory=24)
    probe = ReadProbe(device, 12 * MIB)
    model = load(24, device=device, gpu_memory_fraction=0.75, max_sequences=LIMITS["max_rows"], context_length=4096)
    free, total = model.device.memory
    block_bytes = BLOCK_SIZE * model.decoder.kv_bytes_per_token
    assert total - free <= 0.75 * total < total - free + block_bytes
    assert probe.bytes == 12 * MIB


def test_adapters_take_their_memory_before_the_cache(load, tmp_path):
    large = {"large": write_adapter(tmp_path, Path(random_checkpoint(Kind.LLAMA)), seed=0, rank=256)}
    settings = {"gpu_memory_fraction": 0.75, "max_sequences": LIMITS["max_rows"], "context_length": 4096}
    model = load(24, loras=large, **settings)
    assert model.adapters["large"].number == 0
    free, total = model.device.memory
    block_bytes = BLOCK_SIZE * model.decoder.kv_bytes_per_token
    assert total - free <= 0.75 * total < total - free + block_bytes
    assert model.blocks.num_blocks < load(24, **settings).blocks.num_blocks


def test_an_adapter_that_does_not_fit_is_refused_by_its_name(load, tmp_path):
    model = load(64, context_length=BLOCK_SIZE)
    folder = write_adapter(tmp_path, Path(random_checkpoint(Kind.LLAMA)), seed=0, rank=1024)
    probe = ReadProbe(model.device, model.device.memory[0] - 2 * MIB)
    with pytest.raises(CheckpointError, match=r"^lora 'large', .*: CUDA device \d+ has too little memory: "):
        model.adapter_loader.load("large", folder)
    assert probe.bytes > 0
    assert not model.adapters


def test_the_cache_is_no_larger_than_all_sequences_can_fill(load):
    model = load(0, context_length=3 * BLOCK_SIZE)
    assert model.blocks.num_blocks == 3 * LIMITS["max_sequences"]


@pytest.mark.parametrize("has_states", [False, True])
def test_no_pass_and_no_draw_takes_memory(load, has_states):
    folder = further_checkpoint(Further.QWEN3_5 if has_states else Further.LLAMA_BIASED)
    model = load(60, model=folder, context_length=3 * BLOCK_SIZE)
    slot, most_drawn = (0, 16) if has_states else (None, BLOCK_SIZE + 2)
    before, replays = model.device.memory, count_replays()
    vocab_size = model.checkpoint.config.vocab_size
    batch = Batch(max_rows=64, max_sequences=4, max_blocks=model.max_blocks)
    for num_rows in (3, 16) if has_states else (1, 3, 16, 64):
        batch.clear()
        batch.append([7] * num_rows, position=0, blocks=[0, 1, 2], num_logits=num_rows, slot=slot)
        logits = model.decoder.forward(batch).logits
        replays += 1  # each shape was recorded when the model was loaded
        assert count_replays() == replays
        state = EVERYTHING.state(prompt=range(vocab_size))
        model.sampler.sample(logits, [state], [[7] * (num_rows - 1)])
    batch.clear()
    batch.append([7], position=0, blocks=[0, 1, 2], num_logits=1, slot=slot, certain=0)
    model.decoder.extend(batch, model.sampler, [EVERYTHING.state(prompt=[7])], [[]], [most_drawn])
    (free, total), (free_before, total_before) = model.device.memory, before
    assert total == total_before
    assert 0 <= free_before - free < 4096  # a draw that has come twice is recorded: a few launches


def eagle3(target: ModelConfig) -> tuple[dict[str, Any], Tensors]:
    return original_fields(target), drafter_tensors(target)


def p_eagle(target: ModelConfig) -> tuple[dict[str, Any], Tensors]:
    mask = np.ones((1, 3 * target.hidden_size), np.float32)
    return original_fields(target, mask_token_id=3), drafter_tensors(target) | {"mask_hidden": mask}


def dflash(target: ModelConfig) -> tuple[dict[str, Any], Tensors]:
    return zlab_fields(target), block_tensors(target)


def dspark(target: ModelConfig) -> tuple[dict[str, Any], Tensors]:
    tensors = markov_tensors(target, target.vocab_size, target.hidden_size)
    return deepspec_fields(target), block_tensors(target) | tensors


FEW_ROWS: dict[str, int] = {}
ONE_SEQUENCE = {"max_rows": 128, "max_sequences": 1}


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        *((kind, FEW_ROWS) for kind in (eagle3, p_eagle, dflash, dspark)),
        (dspark, ONE_SEQUENCE),
        *(further(kind, ONE_SEQUENCE) for kind in (eagle3, p_eagle, dflash)),
    ],
)
def test_a_drafter_takes_no_memory_after_it_was_loaded(load, tmp_path, kind, limits):
    target = load_checkpoint(random_checkpoint(Kind.LLAMA)).config
    head = write_drafter(tmp_path, *kind(target))
    model = load(120, head=head, context_length=3 * BLOCK_SIZE, **limits)
    free_before, replays = model.device.memory[0], count_replays()
    batch = Batch(max_rows=64, max_sequences=4, max_blocks=model.max_blocks)
    batch.append([7] * 20, position=0, blocks=[0, 1, 2], num_logits=1)
    results = model.decoder.forward(batch)
    batch.clear()
    batch.append([7] * 2, position=18, blocks=[0, 1, 2], num_logits=1)
    decoder = model.drafter.decoder
    decoder.read_features(results, [18, 19])
    (drawn,) = decoder.extend(batch, model.sampler, [EVERYTHING.state(prompt=[7])], [[]], [5])
    assert len(drawn) == 5
    num_replays = 5 if kind is eagle3 else 1  # and the target's; the first of a block is recorded when it comes again
    assert count_replays() >= replays + num_replays, "its passes are recorded"
    assert 0 <= free_before - model.device.memory[0] < 4096
