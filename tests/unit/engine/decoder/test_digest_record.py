"""DigestRecord: a digest is remembered while the files stay as they are, and no longer."""

import os
import threading
import time
from pathlib import Path

import pytest

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.decoder.digest_record import DigestRecord
from tests.harness.models.checkpoints import Kind, copy_of, edit_json, random_checkpoint


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return copy_of(random_checkpoint(Kind.LLAMA, sharded=True), tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 10)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests that were computed, in order."""
    digests, compute = [], Checkpoint.weights_digest

    def note(checkpoint: Checkpoint, cancelled: threading.Event | None) -> str:
        digests.append(compute(checkpoint, cancelled))
        return digests[-1]

    monkeypatch.setattr(Checkpoint, "weights_digest", note)
    return digests


def digest_of(model: Path, folder: Path, **options: int) -> str:
    record = DigestRecord(folder, load_checkpoint(model, **options))
    return record.known() or record.compute()


@pytest.mark.usefixtures("settled")
def test_a_digest_is_computed_once(model: Path, folder: Path, computed: list[str]) -> None:
    digests = [digest_of(model, folder) for _ in range(3)]
    assert len(computed) == 1
    assert digests == computed * 3


@pytest.mark.usefixtures("settled")
def test_a_digest_does_not_depend_on_the_context(model: Path, folder: Path, computed: list[str]) -> None:
    assert digest_of(model, folder) == digest_of(model, folder, context_length=7)
    assert len(computed) == 1


@pytest.mark.usefixtures("settled")
def test_other_weights_at_the_same_time_have_another_digest(model: Path, folder: Path, computed) -> None:
    before = digest_of(model, folder)
    shard = sorted(model.glob("*.safetensors"))[0]
    times, content = shard.stat(), bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digest_of(model, folder) != before
    assert len(computed) == 2


@pytest.mark.usefixtures("settled")
def test_another_configuration_has_its_own_digest(model: Path, folder: Path, computed: list[str]) -> None:
    before = digest_of(model, folder)
    edit_json(model / "config.json", rms_norm_eps=1e-4)
    assert digest_of(model, folder) != before
    assert len(computed) == 2


def test_the_digest_of_files_just_written_is_not_remembered(model: Path, folder: Path, computed: list[str]) -> None:
    assert digest_of(model, folder) == digest_of(model, folder)
    assert len(computed) == 2


@pytest.mark.usefixtures("settled")
def test_files_changed_while_digesting_are_not_remembered(model: Path, folder: Path) -> None:
    record = DigestRecord(folder, load_checkpoint(model))
    os.utime(sorted(model.glob("*.safetensors"))[-1])
    record.compute()
    assert not folder.exists()


@pytest.mark.usefixtures("settled")
def test_a_damaged_record_is_made_anew(model: Path, folder: Path, computed: list[str], caplog) -> None:
    digest_of(model, folder)
    [record] = folder.iterdir()
    record.write_bytes(b"\xff" * 64)
    assert digest_of(model, folder) == computed[0]
    record.write_text(computed[0][:-1])
    assert digest_of(model, folder) == computed[0]
    assert [message.split(": ")[1] for message in caplog.messages] == [
        "cannot be read",
        "holds no digest; it is computed again",
    ]
    assert record.read_text() == computed[0]


@pytest.mark.usefixtures("settled")
def test_a_folder_that_cannot_be_written_is_a_warning(model: Path, folder: Path, caplog) -> None:
    folder.write_text("a file")
    assert digest_of(model, folder) == load_checkpoint(model).weights_digest()
    assert "cannot be written" in caplog.text
