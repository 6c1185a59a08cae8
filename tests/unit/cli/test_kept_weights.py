"""kept_weights: where `outrider up` keeps packed weights if no folder is named."""

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from services.cli.kept_weights import folder_for, remove_unused

LARGE, SMALL = 300 << 20, 1 << 20


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/outrider/weights"


def model(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)  # without taking room on the disk
    return path


def test_large_models_have_a_folder_of_the_users_cache(tmp_path: Path, cache: Path) -> None:
    file, shard = model(tmp_path / "a.gguf", SMALL), model(tmp_path / "b/model.safetensors", LARGE)
    assert folder_for([file, shard.parent]) == cache
    assert not cache.exists(), "only a service that keeps something makes it"


def test_small_and_absent_models_are_not_kept(tmp_path: Path) -> None:
    assert folder_for([model(tmp_path / "a.gguf", SMALL), tmp_path / "nowhere"]) is None


@pytest.mark.parametrize(("free", "has_room"), [(4 * LARGE, True), (4 * LARGE - 1, False)])
def test_a_disk_without_much_room_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, has_room: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    assert (folder_for([model(tmp_path / "a.gguf", LARGE)]) is not None) == has_room


def test_what_nobody_has_read_for_a_month_is_removed(tmp_path: Path) -> None:
    month = 31 * 24 * 3600
    for name, age in (("new.packed", 0), ("old.packed", month), ("old.packed.part", month), ("old.digest", month)):
        path = model(tmp_path / name, 1)
        os.utime(path, (time.time(), time.time() - age))
    remove_unused(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"new.packed", "old.digest"}
    remove_unused(tmp_path / "nowhere")
