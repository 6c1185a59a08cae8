"""A GGUF file is read as the gguf package reads it, and any other content is refused by one sentence."""

import os
import random
import re
import struct
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.gguf.gguf_file import GgufFile, is_gguf
from services.engine.gguf.header_reader import HeaderReader
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.gguf_files import write_gguf

_SLACK = 1 << 20  # bytes: what Python takes for any file


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A small model."""
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    return write_gguf(random_checkpoint(Kind.LLAMA), path, gguf.GGMLQuantizationType.Q8_0)


def header(
    *, version: int = 3, tensors: bytes = b"", num_tensors: int = 0, keys: bytes = b"", num_keys: int = 0
) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_keys) + keys + tensors


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: str, shape: list[int], kind: int = 0, begin: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, begin)


def test_metadata_and_tensors_are_those_that_the_package_reads(whole):
    ours, theirs = GgufFile(whole), gguf.GGUFReader(whole)
    fields = {name: field for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    assert [*ours.metadata] == [*fields]
    for name, field in fields.items():
        value, expected = ours.metadata.raw(name), field.contents()
        match expected:
            case [str(), *_]:
                assert ours.metadata.texts(name) == expected
            case float():
                assert np.float32(value) == np.float32(expected)
            case _:
                assert value == expected
    assert [*ours.tensors] == [tensor.name for tensor in theirs.tensors]
    for stored in theirs.tensors:
        mine = ours.tensors[stored.name]
        assert (mine.kind.name, [*mine.shape]) == (stored.tensor_type.name, stored.shape.tolist()[::-1])
        assert ours.rows(stored.name).tobytes() == stored.data.tobytes()


def test_numbers_are_the_shortest_decimals_that_are_stored_so(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(header(keys=key("a", 6, struct.pack("<f", 1e-5)), num_keys=1))
    assert GgufFile(path).metadata.raw("a") == 1e-5


def test_gguf_files_are_recognised_by_name_and_content(tmp_path, whole):
    assert is_gguf(whole)
    assert is_gguf(tmp_path / "missing.gguf")
    assert not is_gguf(tmp_path)
    assert not is_gguf(tmp_path / "missing")


_U32, _STRING, _ARRAY = 4, 8, 9
BAD = {
    "truncated": (b"GGUF\3\0\0", "the version: lies beyond byte 7, the end of the file"),
    "not one": (b"PK\3\4" + bytes(40), "is not a GGUF file: it begins with b'PK\\x03\\x04', not with b'GGUF'"),
    "old": (header(version=1), "the version: is 1; allowed are 2, 3"),
    "big endian": (header(version=3 << 24), "the version: is 50331648 (its bytes are in the order of other machines)"),
    "many keys": (header(num_keys=1 << 60), "the number of keys: is 1152921504606846976; it must be from 0 to 4096"),
    "keys missing": (header(num_keys=50), "the number of keys: is 50, for which the file has too few bytes"),
    "many tensors": (header(num_tensors=1 << 17), "the number of tensors: is 131072; it must be from 0 to 65536"),
    "key too long": (header(keys=text("a" * 70_000), num_keys=1), "a key: the length: is 70000; it must be from 0 to"),
    "key no text": (header(keys=struct.pack("<Q", 2) + b"\xff\xfe" + bytes(20), num_keys=1), "a key: is not UTF-8"),
    "unknown type": (header(keys=key("a", 13, bytes(16)), num_keys=1), "key 'a': the type: is 13; allowed are 0 to 12"),
    "no flag": (header(keys=key("a", 7, b"\2"), num_keys=1), "key 'a': must be true or false, 1 or 0, is 2"),
    "key twice": (header(keys=2 * key("a", _U32, bytes(4)), num_keys=2), "key 'a': occurs twice"),
    "long text": (
        header(keys=key("a", _STRING, struct.pack("<Q", 2**63)), num_keys=1),
        "key 'a': the length: is 9223372036854775808; it must be from 0 to",
    ),
    "long list": (
        header(keys=key("a", _ARRAY, struct.pack("<IQ", _U32, 1 << 40)), num_keys=1),
        "key 'a': the number of elements: is 1099511627776; it must be from 0 to 4194304",
    ),
    "short list": (
        header(keys=key("a", _ARRAY, struct.pack("<IQ", _U32, 1 << 20)), num_keys=1),
        "key 'a': the number of elements: is 1048576, for which the file has too few bytes",
    ),
    "list of lists": (
        header(keys=key("a", _ARRAY, struct.pack("<IQ", _ARRAY, 1) + bytes(12)), num_keys=1),
        "key 'a': the elements' type: is 9; allowed are 0 to 8 and 10 to 12",
    ),
    "list of endless texts": (
        header(keys=key("a", _ARRAY, struct.pack("<IQ", _STRING, 2) + struct.pack("<Q", 2**63) + bytes(8)), num_keys=1),
        "key 'a': element 1 lies beyond the end of the header",
    ),
    "alignment": (
        header(keys=key("general.alignment", _U32, struct.pack("<I", 48)), num_keys=1),
        "key 'general.alignment': must be a power of 2, is 48",
    ),
    "tensor twice": (header(tensors=2 * tensor("a", [8]), num_tensors=2), "tensor 'a': occurs twice"),
    "no dimensions": (
        header(tensors=tensor("a", []) + bytes(32), num_tensors=1),
        "tensor 'a': the number of dimensions: is 0; it must be from 1 to 4",
    ),
    "no values": (
        header(tensors=tensor("a", [0, 8]), num_tensors=1),
        "tensor 'a': has shape [0, 8]; each dimension must",
    ),
    "endless": (
        header(tensors=tensor("a", [2**62, 2**62]), num_tensors=1),
        "their product at most 9223372036854775807",
    ),
    "unknown tensor type": (
        header(tensors=tensor("a", [8], 99), num_tensors=1),
        "tensor 'a': type 99 is not supported",
    ),
    "other type": (
        header(tensors=tensor("a", [8], 28), num_tensors=1),
        "type F64 is not supported; allowed are F32, F16",
    ),
    "half a block": (
        header(tensors=tensor("a", [4, 40], 8), num_tensors=1),
        "tensor 'a': has rows of 40 values; Q8_0 needs a multiple of 32",
    ),
    "beyond the end": (
        header(tensors=tensor("a", [1 << 40]), num_tensors=1) + bytes(64),
        "tensor 'a': ends at byte 4398046511104 of the data, but the file holds",
    ),
    "hole": (
        header(tensors=tensor("a", [8], begin=64), num_tensors=1) + bytes(256),
        "tensor 'a': begins at byte 64 of the data and leaves a hole before it",
    ),
    "rest": (
        header(tensors=tensor("a", [8]), num_tensors=1) + bytes(256),
        "bytes after the last tensor belong to none",
    ),
    "overlap": (
        header(tensors=tensor("a", [16]) + tensor("b", [8], begin=32), num_tensors=2) + bytes(256),
        "tensor 'b': begins at byte 32 of the data and overlaps the tensor before it",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_files_are_refused(tmp_path, name):
    content, problem = BAD[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as refused:
        GgufFile(path)
    assert str(refused.value).startswith(str(path))
    assert problem in str(refused.value)


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), os.mkfifo])
def test_a_path_that_is_no_regular_file_is_refused(tmp_path, make):
    path = tmp_path / "model.gguf"
    make(path)
    with pytest.raises(CheckpointError, match="is not a regular file"):
        GgufFile(path)


def test_a_file_cut_short_anywhere_is_refused(tmp_path, whole):
    content, path = whole.read_bytes(), tmp_path / "model.gguf"
    header_end = content.index(b"blk.0.attn_k.weight")
    for size in random.Random(5).sample(range(header_end), 200):
        path.write_bytes(content[:size])
        with pytest.raises(CheckpointError) as refused:
            GgufFile(path)
        assert str(path) in str(refused.value)


def test_changed_headers_are_refused_in_little_memory(tmp_path, monkeypatch):
    """Each has one of its counts, lengths, types, dimensions or offsets changed."""
    small = write_small(tmp_path / "small.gguf")
    content, path, generator = small.read_bytes(), tmp_path / "model.gguf", random.Random(14)
    places, numbers = structural_numbers(small, monkeypatch), [0, 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]
    assert len(places) > 40
    path.write_bytes(content)
    tracemalloc.start()
    with path.open("r+b", buffering=0) as file:
        for _ in range(1_000):
            position, size = generator.choice(places)
            old = content[position : position + size]
            value = generator.choice([*numbers, generator.getrandbits(64)])
            if (new := (value % (1 << 8 * size)).to_bytes(size, "little")) == old:
                continue
            os.pwrite(file.fileno(), new, position)
            problem = problem_of(path)
            assert problem is not None, (position, new)
            assert problem.startswith(str(path))
            assert len(problem) < 2000
            os.pwrite(file.fileno(), old, position)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(content) + _SLACK


def test_bytes_changed_anywhere_load_or_are_refused(tmp_path):
    content, path, generator = (
        write_small(tmp_path / "small.gguf").read_bytes(),
        tmp_path / "model.gguf",
        random.Random(3),
    )
    for _ in range(400):
        changed = bytearray(content)
        for _ in range(generator.choice([1, 1, 5])):
            changed[generator.randrange(500)] = generator.randrange(256)
        path.write_bytes(changed)
        assert (problem_of(path) or str(path)).startswith(str(path))


def structural_numbers(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Where in a file the numbers lie by which it is walked, and how many bytes each has."""
    places, number = [], HeaderReader.number

    def noted(reader: HeaderReader, code: str, what: str) -> int | float:
        if not re.fullmatch(r"key '\w+'", what):  # a value, which may be any
            places.append((reader.position, struct.calcsize(code)))
        return number(reader, code, what)

    with monkeypatch.context() as patch:
        patch.setattr(HeaderReader, "number", noted)
        GgufFile(path)
    return places


def problem_of(path: Path) -> str | None:
    try:
        GgufFile(path)
    except CheckpointError as error:
        return str(error)
    return None


def write_small(path: Path) -> Path:
    """A file whose header is nearly all numbers; none of one byte, whose type may be another of that size."""
    keys = [key(f"k{kind}", kind, bytes(size)) for kind, size in ((2, 2), (4, 4), (6, 4), (10, 8), (12, 8))]
    keys += [key("t", _STRING, text("ab")), key("l", _ARRAY, struct.pack("<IQ", _U32, 3) + bytes(12))]
    keys += [key("s", _ARRAY, struct.pack("<IQ", _STRING, 4) + b"".join(map(text, ("a", "b", "", "c"))))]
    tensors = [tensor(f"t{i}", [4, 32], 8, 160 * i) for i in range(4)]
    content = header(keys=b"".join(keys), num_keys=len(keys), tensors=b"".join(tensors), num_tensors=len(tensors))
    path.write_bytes(content + bytes(-len(content) % 32) + bytes(160 * 4))
    return path
