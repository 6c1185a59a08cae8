"""EngineConfig: what cannot be served is refused by name, and sizes fit the memory."""

import os
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from services.engine.checkpoint.model_config import Activation, Attention, ModelConfig, Rope
from services.engine.config import (
    KV_FORMATS,
    WEIGHT_FORMATS,
    ConfigError,
    EngineConfig,
    resolve_isa,
    resolve_threads,
    resolve_weights_cache,
)
from services.engine.decoder.host_memory import free_memory, host_memory
from services.engine.decoder.native import BLOCK_SIZE, cuda_devices, cuda_problem, isas
from services.target.generation.fingerprint import Fingerprint

MODEL = ModelConfig(
    architecture="LlamaForCausalLM",
    layers=(Attention(), Attention()),
    hidden_size=64,
    intermediate_size=128,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=100,
    max_position=16 * BLOCK_SIZE,
    norm_eps=1e-5,
    activation=Activation.SILU,
    query_scale=0.25,
    ropes=(Rope(frequencies=(1.0,) * 8),),
    tied_embeddings=True,
)
BLOCK_BYTES = 2 * 2 * 2 * 16 * BLOCK_SIZE * 2  # keys and values, layers, heads, their size, positions, bytes of bf16


def make_config(**changes) -> EngineConfig:
    return EngineConfig(**{"model": Path("model"), "isa": isas()[0], "threads": 1} | changes)


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("threads", max(64, 4 * os.cpu_count())),
        ("kv_memory", 2**50),
        ("kv_offload_memory", 2**50),
        ("kv_offload_disk", 2**50),
        ("kv_blocks", 2**31 - 1),
        ("context_length", 2**31 - 1),
        ("max_rows", 2**16),
        ("prefill_chunk", 2**16),
        ("max_sequences", 2**12),
        ("stream_capacity", 2**20),
    ],
)
def test_a_count_outside_its_range_is_refused(field, most):
    for value in (0, -3, most + 1, 10**30):
        with pytest.raises(ConfigError, match=f"^{field} is {value}; it must be from 1 to {most}$"):
            make_config(**{field: value})


def test_more_kv_memory_than_the_host_has_is_refused():
    with pytest.raises(ConfigError, match=f"^kv_memory is {2**50} bytes; it must be from 1 to {host_memory()}, what"):
        make_config(kv_memory=2**50)


def test_more_kv_blocks_than_the_host_has_memory_for_are_refused():
    most = host_memory() // BLOCK_BYTES
    assert make_config(kv_blocks=most).num_blocks(MODEL) == most
    message = f"^kv_blocks is {most + 1}, of {BLOCK_BYTES} bytes each; it must be from 1 to {most}, for which this host"
    with pytest.raises(ConfigError, match=message):
        make_config(kv_blocks=most + 1).num_blocks(MODEL)


def test_weights_beyond_the_hosts_memory_are_refused_unread():
    huge = replace(MODEL, vocab_size=1 << 21, hidden_size=1 << 18)
    for weights, bits in (("f32", 32), ("bf16", 16), ("int8", 8)):
        with pytest.raises(
            ConfigError, match=rf"^weights are {weights}, of \d+ bytes at least, .* at most {host_memory()}"
        ):
            make_config().check_host_memory(huge, weights)
        assert bits * huge.vocab_size * huge.hidden_size // 8 > host_memory()
    make_config(kv_blocks=1).check_host_memory(MODEL, "f32")


def test_weights_beyond_the_hosts_free_memory_are_refused_unread(monkeypatch):
    monkeypatch.setattr("services.engine.config.free_memory", lambda: 1000)
    with pytest.raises(ConfigError, match=r"^weights are bf16, .* together they must take at most 1000, .* has left$"):
        make_config(kv_blocks=1).check_host_memory(MODEL, "bf16")


def test_free_memory_is_read_from_meminfo(tmp_path):
    table = tmp_path / "meminfo"
    table.write_text("MemTotal:  9 kB\nMemAvailable:       3 kB\nSwapTotal: 7 kB\nSwapFree:   2 kB\n")
    assert free_memory(table) == 5 * 1024
    table.write_text("MemTotal:  9 kB\n")
    assert free_memory(table) == free_memory(tmp_path / "missing") == host_memory()


def test_a_container_s_limit_is_the_memory_there_is(tmp_path):
    limits = [tmp_path / name for name in ("small", "none", "garbage", "missing")]
    for path, text in zip(limits, ("4096\n", "max\n", "?", None), strict=True):
        if text is not None:
            path.write_text(text)
    assert host_memory(limits) == 4096
    assert host_memory(limits[1:]) == host_memory([])
    assert host_memory([]) >= host_memory()


@pytest.mark.parametrize(
    ("field", "allowed"), [("weights", "stored, bf16, f32, int8, int4, auto"), ("kv", "bf16, f32, int8")]
)
def test_an_unknown_format_is_refused(field, allowed):
    with pytest.raises(ConfigError, match=f"^{field} is 'int3'; it must be one of {allowed}$"):
        make_config(**{field: "int3"})


def test_an_isa_that_this_machine_cannot_run_is_refused():
    with pytest.raises(ConfigError, match=f"^isa is 'mmx'; it must be one of {', '.join(isas())}$"):
        make_config(isa="mmx")


@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:99", "cuda-emulated"])
def test_a_device_that_is_not_there_is_refused(device):
    allowed = ", ".join(["cpu", *(f"cuda:{index}" for index in range(len(cuda_devices())))])
    with pytest.raises(ConfigError) as refusal:
        make_config(device=device)
    reason = "" if cuda_devices() else f" (no GPU: {cuda_problem()})"
    assert str(refusal.value) == f"device is {device!r}; it must be one of {allowed}{reason}"


@pytest.mark.parametrize("device", ["cuda:0,cuda:0", "cuda:0,cpu", "cpu,cpu", "cuda:1,cuda:0,cuda:1"])
def test_several_devices_are_different_gpus(device, monkeypatch):
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"] * 2)
    with pytest.raises(ConfigError, match=f"^device is '{device}'; several must be different GPUs, at most 8$"):
        make_config(device=device)
    with pytest.raises(ConfigError, match=r"^device is 'cuda:0,cuda:2'; it must be one of cpu, cuda:0, cuda:1"):
        make_config(device="cuda:0,cuda:2")


def test_several_gpus_load_their_kernels_at_the_start(monkeypatch):
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"] * 2)
    monkeypatch.setenv("CUDA_MODULE_LOADING", "")  # which is restored after the test
    monkeypatch.delenv("CUDA_MODULE_LOADING")
    make_config(device="cuda:1")
    assert "CUDA_MODULE_LOADING" not in os.environ
    make_config(device="cuda:0,cuda:1")
    assert os.environ["CUDA_MODULE_LOADING"] == "EAGER"


def test_several_gpus_share_each_block(monkeypatch):
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"] * 2)
    one, two = make_config(device="cuda:1"), make_config(device="cuda:1,cuda:0")
    assert (one.devices, two.devices) == (("cuda:1",), ("cuda:1", "cuda:0"))
    whole = one.block_bytes(MODEL)
    assert two.block_bytes(MODEL, ranks=2) == whole // 2
    assert (one.num_blocks(MODEL, 3 * whole), two.num_blocks(MODEL, 3 * whole)) == (3, 6)
    assert two.num_blocks(MODEL, 3 * whole, drafter=MODEL) == 2  # whose blocks are whole
    memories = [SimpleNamespace(memory=(60, 100)), SimpleNamespace(memory=(30, 100))]
    assert [two.memory_left(memories[:1]), two.memory_left(memories), two.memory_left(memories[1:])] == [50, 20, 20]
    assert two.memory_left([SimpleNamespace(memory=None)]) is None


def test_a_device_holds_formats_of_its_own(monkeypatch):
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_80", "cuda-sm_90"])
    for weights in WEIGHT_FORMATS:
        assert make_config(device="cuda:1", weights=weights, kv="int8").weights == weights
    for kv in KV_FORMATS:
        assert make_config(device="cuda:1", kv=kv).kv == kv
    with pytest.raises(ConfigError, match=r"^weights is 'fp8'; it must be one of stored, bf16, f32, int8, int4, auto$"):
        make_config(weights="fp8")
    with pytest.raises(ConfigError, match=r"^kv is 'fp8'; it must be one of bf16, f32, int8$"):
        make_config(kv="fp8")


def test_a_pass_must_hold_a_row_of_every_sequence():
    with pytest.raises(ConfigError, match=r"^max_rows is 7; it must be at least max_sequences \(8\)$"):
        make_config(max_rows=7, max_sequences=8)
    assert make_config(max_rows=8, max_sequences=8).max_rows == 8


def test_a_pass_must_hold_a_whole_prefill_chunk_if_set():
    with pytest.raises(ConfigError, match=r"^max_rows is 99; it must be at least prefill_chunk \(100\)$"):
        make_config(max_rows=99, prefill_chunk=100)
    assert make_config(max_rows=100, prefill_chunk=100).resolve_prefill_chunk() == 100
    assert [make_config(max_rows=rows).resolve_prefill_chunk() for rows in (64, 300)] == [64, 256]


def test_the_environment_forces_the_isa_else_the_best_is_taken():
    assert resolve_isa({}) == isas()[0]
    assert resolve_isa({"OUTRIDER_ISA": ""}) == isas()[0]
    assert resolve_isa({"OUTRIDER_ISA": "portable"}) == "portable"
    with pytest.raises(ConfigError, match="isa is 'mmx'"):
        make_config(isa=resolve_isa({"OUTRIDER_ISA": "mmx"}))


def test_the_environment_is_read_anew(monkeypatch):
    monkeypatch.setenv("OUTRIDER_ISA", "portable")
    assert resolve_isa() == "portable"


def test_the_environment_names_the_folder_of_packed_weights():
    named = {"OUTRIDER_WEIGHTS_CACHE": "/var/cache"}
    assert resolve_weights_cache(None, {}) is None
    assert resolve_weights_cache(None, {"OUTRIDER_WEIGHTS_CACHE": ""}) is None
    assert resolve_weights_cache(None, {"OUTRIDER_WEIGHTS_CACHE": "off"}) is None
    assert resolve_weights_cache(None, named) == Path("/var/cache")
    assert resolve_weights_cache(Path("/here"), named) == Path("/here")
    assert resolve_weights_cache(Path("off"), named) is None


def test_a_gpu_has_no_packed_weights_to_keep(monkeypatch):
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"])
    with pytest.raises(
        ConfigError, match=r"^weights_cache is here; it must not be set with device cuda:0, only with cpu$"
    ):
        make_config(device="cuda:0", weights_cache=Path("here"))


def test_threads_default_to_the_cores_that_may_be_used(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 4, 5})
    assert resolve_threads() == 3
    assert resolve_threads(7) == 7


def test_with_ample_memory_all_sequences_fit_at_full_length():
    assert make_config(max_sequences=3).num_blocks(MODEL) == 3 * 16
    assert make_config(max_sequences=3, context_length=BLOCK_SIZE + 1).num_blocks(MODEL) == 3 * 2


@pytest.mark.parametrize(("kv", "num_blocks"), [("bf16", 5), ("f32", 2), ("int8", 9)])
def test_blocks_stay_within_the_memory(kv, num_blocks):
    config = make_config(kv=kv, kv_memory=6 * BLOCK_BYTES - 1)
    assert config.num_blocks(MODEL) == num_blocks
    assert config.resolve_context_length(MODEL, num_blocks) == num_blocks * BLOCK_SIZE


def test_memory_without_room_for_one_block_is_refused():
    message = f"^kv_memory is {BLOCK_BYTES - 1} bytes; it must be at least {BLOCK_BYTES}, one KV block$"
    with pytest.raises(ConfigError, match=message):
        make_config(kv_memory=BLOCK_BYTES - 1).num_blocks(MODEL)


@pytest.mark.parametrize(
    ("kv_memory", "left", "num_blocks"),
    [(None, 3 * BLOCK_BYTES + 1, 3), (2 * BLOCK_BYTES, 3 * BLOCK_BYTES, 2), (5 * BLOCK_BYTES, 3 * BLOCK_BYTES, 3)],
)
def test_a_gpu_gives_the_cache_its_remaining_memory(kv_memory, left, num_blocks):
    assert make_config(kv_memory=kv_memory).num_blocks(MODEL, left) == num_blocks


@pytest.mark.parametrize("left", [BLOCK_BYTES - 1, -5])
def test_a_gpu_with_too_little_left_is_reported_in_figures(left):
    message = (
        "^gpu_memory_fraction is 0.9; beside the weights and what else is on the GPU "
        f"{max(left, 0)} bytes are left, but one KV block takes {BLOCK_BYTES}$"
    )
    with pytest.raises(ConfigError, match=message):
        make_config().num_blocks(MODEL, left)


@pytest.mark.parametrize("fraction", [0, -0.5, 1.01, float("nan")])
def test_a_fraction_of_a_gpu_is_one(fraction):
    with pytest.raises(ConfigError, match=f"^gpu_memory_fraction is {fraction}; it must be above 0 and at most 1$"):
        make_config(gpu_memory_fraction=fraction)


def test_blocks_may_be_counted_instead_of_bytes():
    config = make_config(kv_blocks=3, kv_memory=1)
    assert config.num_blocks(MODEL) == 3
    assert config.resolve_context_length(MODEL, 3) == 3 * BLOCK_SIZE


@pytest.mark.parametrize(("asked", "resolved"), [(None, 16 * BLOCK_SIZE), (9, 9), (1 << 20, 16 * BLOCK_SIZE)])
def test_the_context_is_no_longer_than_the_model_was_made_for(asked, resolved):
    assert make_config(context_length=asked).resolve_context_length(MODEL, 100) == resolved


def test_the_weights_are_held_as_asked_or_else_as_is_fastest():
    assert make_config(weights="int8").resolve_weights(MODEL, is_grouped=True) == "int8"
    assert make_config(weights="auto").resolve_weights(MODEL, is_grouped=False) == "bf16"
    large = replace(MODEL, vocab_size=1_000_000)
    assert make_config(weights="auto").resolve_weights(large, is_grouped=False) == "int4"
    assert make_config(weights="auto").resolve_weights(large, is_grouped=True) == "stored"


def test_grouped_integers_are_held_as_stored_by_default(monkeypatch, caplog):
    assert make_config().resolve_weights(MODEL, is_grouped=True) == "stored"
    assert make_config().resolve_weights(MODEL, is_grouped=False) == "bf16"
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"])
    caplog.set_level("INFO")
    assert make_config(device="cuda:0").resolve_weights(MODEL, is_grouped=True) == "bf16"
    assert caplog.messages == ["weights are held as bf16: a GPU does not hold integers as the files do"]


def test_a_fingerprint_depends_on_each_of_its_parts():
    parts = {field.name: field.type(1) for field in fields(Fingerprint)}
    fingerprint = Fingerprint(**parts)
    changed = [replace(fingerprint, **{name: type(value)(2)}) for name, value in parts.items()]
    assert len({str(fingerprint), *map(str, changed)}) == len(parts) + 1
    assert str(fingerprint) == str(Fingerprint(**parts))


@pytest.mark.parametrize(
    ("settings", "num_blocks", "context_length", "session_blocks"),
    [
        ({}, 100, 16 * BLOCK_SIZE, 25),
        ({}, 20, 16 * BLOCK_SIZE, 4),  # what is beside one context
        ({}, 8, 8 * BLOCK_SIZE, 0),
        ({"session_blocks": 6}, 8, 2 * BLOCK_SIZE, 6),
        ({"session_blocks": 0}, 100, 16 * BLOCK_SIZE, 0),
        ({"prefix_cache": False}, 100, 16 * BLOCK_SIZE, 0),
    ],
)
def test_one_context_fits_beside_the_session_blocks(settings, num_blocks, context_length, session_blocks):
    config = make_config(**settings)
    assert config.resolve_context_length(MODEL, num_blocks) == context_length
    assert config.resolve_session_blocks(num_blocks, context_length) == session_blocks


def test_sessions_may_not_hold_all_blocks_or_uncached_ones():
    with pytest.raises(ConfigError, match="session_blocks is 8; it must be from 0 to 7"):
        make_config(session_blocks=8).resolve_context_length(MODEL, 8)
    with pytest.raises(ConfigError, match="session_blocks is 1; it must be from 0 to 0"):
        make_config(session_blocks=1, prefix_cache=False)
