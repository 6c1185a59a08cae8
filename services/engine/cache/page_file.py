"""PageFile: pages in slots of one file, each with a checksum, which the next process can load.

Layout, numbers little-endian: a header of 4 KiB; a table with an entry for each slot; the pages, each aligned to 4 KiB.
An entry holds the sequence number of its write, the page's key and SHA-256, and a checksum of itself that is keyed with
the header's epoch: a new epoch invalidates all entries, which empties the file.
"""

import fcntl
import os
import secrets
import stat
import struct
from hashlib import blake2b, sha256
from pathlib import Path

import numpy as np

from services.engine.cache.page_key import DIGEST_BYTES, PageKey
from services.engine.cache.page_store import Page

_NAME = "outrider-kv.pages"
_MAGIC, _VERSION = b"OUTRIDKV", 1
_HEADER = struct.Struct(f"<8sIIQQ{DIGEST_BYTES}s")  # magic, version, tokens of a block, slots, bytes of a page, owner
_EPOCH_BYTES = _CHECK_BYTES = 16
_ALIGNMENT = 4096


class PageFileInUseError(Exception):
    """Another process uses the file."""


class PageFile:
    """Only one process may open it at a time; within it, one thread may write while another reads."""

    def __init__(self, folder: Path, owner: str, *, num_slots: int, page_bytes: int, block_size: int) -> None:
        """`owner` describes everything but the tokens that the pages' bytes depend on, such as the model.

        Nothing is read or written before `load`. Raises PageFileInUseError, and OSError for an unusable folder.
        """
        self.path = folder / _NAME
        self.num_slots, self.page_bytes = num_slots, page_bytes
        self._entry = struct.Struct(f"<Q{DIGEST_BYTES}s{block_size}I{sha256().digest_size}s")
        whose = sha256(owner.encode()).digest()
        self._header = _HEADER.pack(_MAGIC, _VERSION, block_size, num_slots, page_bytes, whose)
        self.epoch = b""
        """The epoch with which entries are written now."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _open_alone(self.path)

    @property
    def _entry_bytes(self) -> int:
        return self._entry.size + _CHECK_BYTES

    def load(self) -> list[tuple[int, int, PageKey]]:
        """Return the number of its write, the slot and the key of each page, the oldest first. Raises OSError.

        A file of another owner or shape is emptied, and has no pages.
        """
        size = self._place(self.num_slots)
        if os.fstat(self._file).st_size != size:
            os.ftruncate(self._file, 0)
        os.posix_fallocate(self._file, 0, size)
        header = os.pread(self._file, len(self._header) + _EPOCH_BYTES + _CHECK_BYTES, 0)
        plain, check = header[:-_CHECK_BYTES], header[-_CHECK_BYTES:]
        if plain[: len(self._header)] != self._header or _check(plain, b"") != check:
            self.empty()
            return []
        self.epoch = plain[len(self._header) :]
        table = os.pread(self._file, self.num_slots * self._entry_bytes, _ALIGNMENT)
        parts = [table[start : start + self._entry_bytes] for start in range(0, len(table), self._entry_bytes)]
        return sorted(entry for slot, part in enumerate(parts) if (entry := self._read_entry(slot, part)) is not None)

    def empty(self) -> None:
        """Invalidate all pages by a new epoch; raises OSError."""
        self.epoch = secrets.token_bytes(_EPOCH_BYTES)
        plain = self._header + self.epoch
        _write(self._file, plain + _check(plain, b""), 0)

    def write(self, number: int, slot: int, key: PageKey, page: Page, epoch: bytes) -> None:
        """Write a page to a slot; until it is written completely, the slot holds no valid page. Raises OSError."""
        entry = self._entry.pack(number, key.digest, *key.token_ids, sha256(page.data).digest())
        _write(self._file, page.data, self._place(slot))
        _write(self._file, entry + _check(entry, epoch), self._entry_place(slot))

    def read(self, slot: int, key: PageKey) -> Page | None:
        """Return the page in a slot, or None if it is damaged or has another key; raises OSError."""
        entry = os.pread(self._file, self._entry_bytes, self._entry_place(slot))
        if (found := self._read_entry(slot, entry)) is None or found[2] != key:
            return None
        page = np.empty(self.page_bytes, np.uint8)
        _read(self._file, page.data, self._place(slot))
        checksum = entry[self._entry.size - sha256().digest_size : self._entry.size]
        return page if sha256(page.data).digest() == checksum else None

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        os.close(self._file)

    def _read_entry(self, slot: int, entry: bytes) -> tuple[int, int, PageKey] | None:
        plain, check = entry[: self._entry.size], entry[self._entry.size :]
        if len(plain) < self._entry.size or _check(plain, self.epoch) != check:
            return None
        number, digest, *token_ids, _ = self._entry.unpack(plain)
        return number, slot, PageKey(digest, tuple(token_ids))

    def _entry_place(self, slot: int) -> int:
        return _ALIGNMENT + slot * self._entry_bytes

    def _place(self, slot: int) -> int:
        """Return the offset of a slot's page; for the number after the last slot, the size of the file."""
        return _aligned(self._entry_place(self.num_slots)) + slot * _aligned(self.page_bytes)


def _open_alone(path: Path) -> int:
    # The pages reveal prompts: no other user may read them.
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{path} is not a regular file")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(file)
        raise PageFileInUseError(f"another process uses {path}") from error
    except OSError:
        os.close(file)
        raise
    return file


def _check(plain: bytes, epoch: bytes) -> bytes:
    return blake2b(plain, digest_size=_CHECK_BYTES, key=epoch).digest()


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _write(file: int, rest: bytes | memoryview, place: int) -> None:
    while rest:
        count = os.pwrite(file, rest, place)
        rest, place = rest[count:], place + count


def _read(file: int, rest: memoryview, place: int) -> None:
    """Fill the memory from the file, up to the file's end."""
    while rest and (count := os.preadv(file, [rest], place)):
        rest, place = rest[count:], place + count
