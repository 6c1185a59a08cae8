"""ReadAhead: a file is read once while its context lasts; one that cannot be read is left to who needs it."""

import os
import re
from pathlib import Path

from services.engine.decoder.read_ahead import ReadAhead

MIB = 1 << 20


def bytes_read() -> int:
    found = re.search(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_the_whole_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "packed"
    path.write_bytes(bytes(50 * MIB + 3))
    before = bytes_read()
    with ReadAhead(path) as ahead:
        ahead._thread.join()
    assert 50 * MIB <= bytes_read() - before < 51 * MIB


def test_the_reading_ends_with_the_context(tmp_path: Path) -> None:
    path = tmp_path / "packed"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # no disk holds it, and reading it would take an hour
    with ReadAhead(path) as ahead:
        pass
    assert not ahead._thread.is_alive()


def test_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing"):
        with ReadAhead(tmp_path / name) as ahead:
            ahead._thread.join()
