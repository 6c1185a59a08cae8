"""BackgroundDigest: computed beside what else is loaded, and not at all where it is remembered."""

import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.decoder.background_digest import BackgroundDigest
from services.engine.decoder.digest_record import DigestRecord
from tests.harness.models.checkpoints import Kind, random_checkpoint


@pytest.fixture
def checkpoint() -> Checkpoint:
    return load_checkpoint(random_checkpoint(Kind.LLAMA))


def test_the_background_digest_is_the_checkpoints(checkpoint: Checkpoint) -> None:
    assert BackgroundDigest(checkpoint).value() == checkpoint.weights_digest()


def test_the_digest_is_computed_in_the_background(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(checkpoint, "weights_digest", lambda cancelled: str(goes_on.wait()))
    digest = BackgroundDigest(checkpoint)
    digest.begin()
    assert not digest.is_known
    goes_on.set()
    assert digest.value() == "True"
    assert digest.is_known


def test_an_error_of_the_digest_is_raised_where_it_is_read(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(cancelled: threading.Event) -> str:
        raise OSError("the disk is gone")

    monkeypatch.setattr(checkpoint, "weights_digest", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        BackgroundDigest(checkpoint).value()


def test_a_remembered_one_is_known_at_once(checkpoint: Checkpoint, tmp_path: Path, monkeypatch) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 10)  # files that have just been written are not trusted
    first = BackgroundDigest(checkpoint, DigestRecord(tmp_path, checkpoint)).value()
    monkeypatch.setattr(checkpoint, "weights_digest", lambda cancelled: pytest.fail("the weights are read"))
    again = BackgroundDigest(checkpoint, DigestRecord(tmp_path, checkpoint))
    assert again.is_known
    assert again.value() == first


def test_nothing_is_read_for_one_that_nobody_needs(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "weights_digest", lambda cancelled: pytest.fail("the weights are read"))
    with BackgroundDigest(checkpoint) as digest:
        assert not digest.is_known


def test_leaving_the_context_waits_until_no_file_is_read(checkpoint: Checkpoint, monkeypatch) -> None:
    has_ended = threading.Event()

    def take_long(cancelled: threading.Event) -> str:
        assert not cancelled.wait(0.2)
        has_ended.set()
        return ""

    monkeypatch.setattr(checkpoint, "weights_digest", take_long)
    with BackgroundDigest(checkpoint) as digest:
        digest.begin()
    assert has_ended.is_set()


def test_a_problem_ends_the_reading(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, read, digest_of = threading.Semaphore(1), checkpoint.stored_rows, checkpoint.weights_digest

    def read_on_when_cancelled(cancelled: threading.Event) -> str:
        threading.Thread(target=lambda: cancelled.wait(60) and pieces.release(1000)).start()
        return digest_of(cancelled)

    monkeypatch.setattr(checkpoint, "weights_digest", read_on_when_cancelled)
    monkeypatch.setattr(checkpoint, "stored_rows", lambda *rows: pieces.acquire(timeout=60) and read(*rows))
    digest = BackgroundDigest(checkpoint)
    digest.begin()
    with pytest.raises(KeyError), digest:
        raise KeyError
    with pytest.raises(CancelledError):
        digest.value()
