"""Pages on a disk: found again by the next process, never with other bytes than were stored, and off after an error."""

import errno
import itertools
import os
import threading
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pytest

from services.engine.cache.cache_journal import CacheJournal, Medium, Removed, Stored
from services.engine.cache.disk_pages import DiskPages
from services.engine.cache.page_file import PageFile, PageFileInUseError
from services.engine.cache.page_key import PageKey, scope_digest
from services.engine.cache.page_store import Page

PAGE_BYTES = 5000
NUM_SLOTS = 4
KEYS = [PageKey.after(scope_digest(""), (token, 2**32 - 1)) for token in range(100)]


def page_file(folder: Path, **changes: object) -> PageFile:
    fields = {"owner": "some", "num_slots": NUM_SLOTS, "page_bytes": PAGE_BYTES, "block_size": 2, **changes}
    return PageFile(folder, **fields)


def page(number: int) -> Page:
    return np.random.default_rng(number).integers(0, 256, PAGE_BYTES, np.uint8)


def put(store: DiskPages, number: int) -> bool:
    return store.put(KEYS[number], lambda to: np.copyto(to, page(number)))


def held(store: DiskPages, numbers: range = range(8)) -> list[int]:
    """Which of the pages are there; each is as it was put."""
    found = [number for number in numbers if store.get(KEYS[number]) is not None]
    assert all(np.array_equal(store.get(KEYS[number]), page(number)) for number in found)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskPages]:
    store = DiskPages(page_file(tmp_path))
    yield store
    store.close()


def written(folder: Path, numbers: range) -> Path:
    """The file that a process has left behind which put these."""
    store = DiskPages(page_file(folder))
    for number in numbers:
        assert put(store, number)
    store.close()
    (path,) = folder.iterdir()
    return path


def test_pages_are_held_before_they_are_written_and_after(store: DiskPages) -> None:
    for number in range(6):
        assert put(store, number)
        assert not put(store, number)
        assert held(store, range(number, number + 1)) == [number]
    assert held(store) == [2, 3, 4, 5]
    store.flush()
    assert held(store) == [2, 3, 4, 5]
    assert (store.num_pages, store.num_dropped, store.problem) == (4, 0, "")


def test_the_next_process_finds_the_pages_and_the_oldest_goes(tmp_path: Path) -> None:
    path = written(tmp_path, range(6))
    assert path.stat().st_mode & 0o077 == 0
    store = DiskPages(page_file(tmp_path))
    assert held(store) == [2, 3, 4, 5]
    assert put(store, 6)
    store.close()
    store = DiskPages(page_file(tmp_path))
    assert held(store) == [3, 4, 5, 6]
    store.close()


@pytest.mark.parametrize("change", [{"owner": "other"}, {"num_slots": 3}, {"page_bytes": 4999}, {"block_size": 1}])
def test_pages_of_another_model_are_not_found_and_are_removed(tmp_path: Path, change: dict[str, object]) -> None:
    written(tmp_path, range(3))
    DiskPages(page_file(tmp_path, **change)).close()
    store = DiskPages(page_file(tmp_path))
    assert (held(store), store.num_pages) == ([], 0)
    store.close()


def test_a_bit_that_is_flipped_anywhere_never_gives_another_page(tmp_path: Path) -> None:
    path = written(tmp_path, range(3))
    whole = path.read_bytes()
    places = np.random.default_rng(0).integers(0, len(whole), 150)
    for place in [*range(0, 100, 9), *range(4096, 5400, 31), *places.tolist()]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 8]) + whole[place + 1 :])
        store = DiskPages(page_file(tmp_path))
        assert held(store) in ([0, 1, 2], [1, 2], [0, 2], [0, 1], [])
        assert not store.problem
        store.close()


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 5000, 20_000])
def test_a_file_that_was_cut_is_as_good_as_new(tmp_path: Path, size: int) -> None:
    path = written(tmp_path, range(3))
    path.write_bytes(path.read_bytes()[:size])
    store = DiskPages(page_file(tmp_path))
    assert (held(store), store.problem) == ([], "")
    assert put(store, 1)
    store.flush()
    assert held(store) == [1]
    store.close()


def test_a_page_whose_slot_is_being_overwritten_is_dropped(tmp_path: Path) -> None:
    path = written(tmp_path, range(4))
    data = path.read_bytes()
    start = data.index(page(0).tobytes())
    path.write_bytes(data[:start] + page(7).tobytes()[:3000] + data[start + 3000 :])
    store = DiskPages(page_file(tmp_path))
    assert held(store) == [1, 2, 3]
    assert store.num_dropped == 1
    store.close()


def test_who_follows_the_cache_is_told_of_a_damaged_page(tmp_path: Path) -> None:
    store, journal = DiskPages(page_file(tmp_path)), CacheJournal(Medium.DISK)
    store.report_to(journal)
    journal.store(("", KEYS[0].token_ids), 0)
    journal.evict(0)
    put(store, 0)
    store.flush()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes().replace(page(0).tobytes(), page(1).tobytes()))
    assert held(store) == []
    (*_, stored, removed) = journal._pending
    assert isinstance(stored, Stored)
    assert (stored.medium, removed) == (Medium.DISK, Removed(stored.hash, Medium.DISK))
    store.close()


def write_on_and_on(folder: Path, has_begun: Event) -> None:
    """Until it is killed."""
    store = DiskPages(page_file(folder))
    for number in itertools.cycle(range(len(KEYS))):
        put(store, number)
        if number == 10:
            has_begun.set()


@pytest.mark.process
def test_pages_found_after_a_kill_are_whole(tmp_path: Path) -> None:
    context, num_found = get_context("spawn"), 0
    for seconds in (0, 0.01, 0.023, 0.05):
        has_begun = context.Event()
        process = context.Process(target=write_on_and_on, args=(tmp_path, has_begun))
        process.start()
        has_begun.wait()
        time.sleep(seconds)
        process.kill()
        process.join()
        store = DiskPages(page_file(tmp_path))
        num_found += len(held(store, range(len(KEYS))))
        assert not store.problem
        store.close()
    assert num_found > NUM_SLOTS


def test_cleared_pages_are_not_found_by_the_next_process(tmp_path: Path) -> None:
    store = DiskPages(page_file(tmp_path))
    put(store, 0)
    store.flush()
    put(store, 1)
    store.clear()  # while the second may still be written
    assert (held(store), store.num_pages) == ([], 0)
    put(store, 2)
    store.close()
    store = DiskPages(page_file(tmp_path))
    assert held(store) == [2]
    store.close()


def test_another_process_cannot_open_the_file(tmp_path: Path, store: DiskPages) -> None:
    with pytest.raises(PageFileInUseError, match=f"another process uses {tmp_path}"):
        page_file(tmp_path)
    assert put(store, 0)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_a_path_that_is_no_regular_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, range(1))
    path.unlink()
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "link": lambda: path.symlink_to("/dev/null")}[kind]()
    with pytest.raises(OSError, match=path.name):
        page_file(tmp_path)


def test_pages_that_the_disk_is_too_slow_for_are_dropped(tmp_path: Path) -> None:
    store = DiskPages(page_file(tmp_path), most_waiting=9 * PAGE_BYTES)
    goes_on = threading.Event()
    store._writer.add(goes_on.wait)
    taken = [put(store, number) for number in range(100)]
    goes_on.set()
    assert taken.count(True) in (8, 9)  # the first write is waited for, or is begun
    assert store.num_dropped == taken.count(False)
    store.flush()
    assert len(held(store, range(100))) == NUM_SLOTS
    assert put(store, 99)
    store.close()


@pytest.mark.parametrize("call", ["pwrite", "pread", "preadv", "posix_fallocate"])
def test_after_a_disk_error_the_store_is_off_and_nothing_fails(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    written(tmp_path, range(2))
    store = DiskPages(page_file(tmp_path)) if call != "posix_fallocate" else None
    monkeypatch.setattr(os, call, fail)
    store = store or DiskPages(page_file(tmp_path))
    put(store, 5)
    store.flush()
    assert call == "pread" or store.get(KEYS[0]) is None
    assert store.get(KEYS[1]) is None
    assert "No space left" in store.problem
    assert not put(store, 6)
    assert (store.has(KEYS[1]), store.num_pages) == (False, 0)
    store.clear()
    store.close()
    assert [message for message in caplog.messages if "KV pages are kept on disk no longer" in message]
