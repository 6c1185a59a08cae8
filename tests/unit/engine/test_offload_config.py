"""Invalid settings of the KV offload are refused by name."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from services.engine.config import ConfigError
from services.engine.decoder.host_memory import host_memory
from services.engine.open_offload import open_offload
from tests.unit.engine.test_config import MODEL, make_config


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"kv_offload_memory": 2**50},
            f"kv_offload_memory is {2**50} bytes; it must be from 1 to {host_memory()}, what",
        ),
        ({"kv_offload_dir": Path("a")}, "kv_offload_dir is a and kv_offload_disk None; both must be set, or neither"),
        ({"kv_offload_disk": 9}, "kv_offload_dir is None and kv_offload_disk 9; both must be set, or neither"),
        (
            {"kv_offload_dir": Path("a"), "kv_offload_disk": 9, "kv_offload_memory": 9},
            "kv_offload_dir is a; it must not be set with kv_offload_memory",
        ),
        (
            {"kv_offload_memory": 9, "prefix_cache": False},
            "kv_offload_memory and kv_offload_dir must not be set without the prefix cache",
        ),
    ],
)
def test_an_offload_that_cannot_be_is_refused(settings, problem):
    with pytest.raises(ConfigError, match=f"^{problem}"):
        make_config(**settings)


def test_memory_for_an_offload_is_the_host_s_too(monkeypatch):
    monkeypatch.setattr("services.engine.config.free_memory", lambda: 1 << 30)
    make_config(kv_blocks=1).check_host_memory(MODEL, "bf16")
    with pytest.raises(ConfigError, match="of KV cache and offload; together they must take at most 1073741824"):
        make_config(kv_blocks=1, kv_offload_memory=1 << 30).check_host_memory(MODEL, "bf16")


def test_pages_of_several_gpus_are_not_those_of_one(tmp_path, monkeypatch):
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"] * 2)
    model = SimpleNamespace(
        decoder=SimpleNamespace(block_bytes=64, read_block=None, write_block=None),
        checkpoint=SimpleNamespace(config=MODEL),
    )
    owners = []
    monkeypatch.setattr("services.engine.open_offload.PageFile", lambda folder, owner, **_: owners.append(owner))
    monkeypatch.setattr(
        "services.engine.open_offload.DiskPages", lambda file: SimpleNamespace(num_slots=9, num_pages=0)
    )
    for device in ("cpu", "cuda:0", "cuda:0,cuda:1"):
        open_offload(make_config(device=device, kv_offload_dir=tmp_path, kv_offload_disk=640), model, "fingerprint")
    assert owners == ["fingerprint", "fingerprint", "fingerprint on 2 devices"]
