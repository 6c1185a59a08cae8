"""PackedFile: weights written are read back; any other content is refused with the reason."""

import io
import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from services.engine.decoder import packed_file
from services.engine.decoder.packed_file import PackedFile, PackedFileError

KEY = {"build": "1", "weights": "int8"}
HEADER_AT = 20


@pytest.fixture(autouse=True)
def slices_of_a_hundred_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_file, "_SLICE", 100)


def random_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {name: rng.integers(256, size=size, dtype=np.uint8) for name, size in [("a", 1), ("b", 250), ("c", 400)]}


def empty_weights() -> dict[str, np.ndarray]:
    return {name: np.zeros_like(values) for name, values in random_weights().items()}


@pytest.fixture
def file(tmp_path: Path) -> PackedFile:
    file = PackedFile(tmp_path / "weights.packed", KEY, threads=2)
    with file.path.open("wb") as output:
        list(file.write(output, random_weights()))
    return file


def test_weights_written_are_read_back(file: PackedFile) -> None:
    weights = empty_weights()
    file.read(weights)
    assert {name: values.tolist() for name, values in weights.items()} == {
        name: values.tolist() for name, values in random_weights().items()
    }


def test_equal_weights_make_equal_files(file: PackedFile) -> None:
    output = io.BytesIO()
    list(file.write(output, random_weights()))
    assert output.getvalue() == file.path.read_bytes()


def test_a_missing_file_is_no_damaged_one(file: PackedFile) -> None:
    file.path.unlink()
    with pytest.raises(FileNotFoundError):
        file.read(empty_weights())


def test_every_damaged_byte_is_noticed(file: PackedFile) -> None:
    whole = file.path.read_bytes()
    for position in range(len(whole)):
        file.path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        with pytest.raises(PackedFileError, match=f"^{file.path}: "):
            file.read(empty_weights())


def test_every_truncation_is_noticed(file: PackedFile) -> None:
    whole = file.path.read_bytes()
    for size in range(len(whole)):
        file.path.write_bytes(whole[:size])
        with pytest.raises(PackedFileError, match=f"^{file.path}: "):
            file.read(empty_weights())


def test_a_file_that_shrinks_while_it_is_read_is_noticed(file: PackedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.preadv", lambda *_: 0)
    with pytest.raises(PackedFileError, match="weight 'a' is truncated"):
        file.read(empty_weights())


def test_short_reads_go_on(file: PackedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    read, weights = packed_file.os.preadv, empty_weights()
    monkeypatch.setattr("os.preadv", lambda fd, buffers, position: read(fd, [buffers[0][:7]], position))
    file.read(weights)
    assert weights["c"].tolist() == random_weights()["c"].tolist()


@pytest.mark.parametrize(
    ("position", "message"),
    [(0, "holds no packed weights"), (HEADER_AT, "the header is damaged"), (-1, "weight 'c' is damaged")],
)
def test_the_error_names_the_damaged_part(file: PackedFile, position: int, message: str) -> None:
    content = bytearray(file.path.read_bytes())
    content[position] ^= 1
    file.path.write_bytes(content)
    with pytest.raises(PackedFileError, match=message):
        file.read(empty_weights())


def test_bytes_after_the_weights_are_refused(file: PackedFile) -> None:
    size = file.path.stat().st_size
    with file.path.open("ab") as output:
        output.write(b"?")
    with pytest.raises(PackedFileError, match=f"has {size + 1} bytes; it must have {size}"):
        file.read(empty_weights())


def test_the_file_of_another_key_is_refused(file: PackedFile) -> None:
    other = PackedFile(file.path, KEY | {"build": "2"}, threads=1)
    with pytest.raises(PackedFileError, match=r"was made for \{'build': '1'.*; it must be for \{'build': '2'"):
        other.read(empty_weights())


def test_a_file_of_other_weights_is_refused(file: PackedFile) -> None:
    for weights in (empty_weights() | {"b": np.zeros(249, np.uint8)}, empty_weights() | {"d": np.zeros(0, np.uint8)}):
        with pytest.raises(PackedFileError, match="has another layout than these weights"):
            file.read(weights)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "the header is no JSON"),
        (b"[" * 100_000, "the header is no JSON"),
        (b"[]", "the header is no JSON object"),
        (b'{"key": 7}', "was made for 7"),
    ],
)
def test_a_header_that_is_whole_and_wrong_is_refused(file: PackedFile, text: bytes, message: str) -> None:
    """Its checksum tells damage from health, and says nothing of who wrote it."""
    file.path.write_bytes(struct.pack("<8sQI", b"OUTRIDER", len(text), zlib.crc32(text)) + text)
    with pytest.raises(PackedFileError, match=message):
        file.read(empty_weights())


def test_headers_without_checksums_are_refused(file: PackedFile) -> None:
    content = file.path.read_bytes()
    _, size, _ = struct.unpack_from("<8sQI", content)
    header = json.loads(content[HEADER_AT : HEADER_AT + size])
    for checksums in (None, 7, [], [0] * 99):
        text = json.dumps(header | {"crc32": checksums}).encode()
        file.path.write_bytes(struct.pack("<8sQI", b"OUTRIDER", len(text), zlib.crc32(text)) + text)
        with pytest.raises(PackedFileError, match=r"the header has not \d checksums"):
            file.read(empty_weights())


def test_a_pipe_is_no_file_of_weights(file: PackedFile) -> None:
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(OSError, match="is not a regular file"):
        file.read(empty_weights())
