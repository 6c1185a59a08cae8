"""A safetensors file is checked whole before any of its tensors is used."""

import json
import random
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors

from services.engine.checkpoint.safetensors_file import SafetensorsFile
from services.engine.files.checkpoint_error import CheckpointError


def write_safetensors(path: Path, header: dict[str, object] | bytes, data: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b'{"a": 1, "a": 2}', "a key occurs twice"),
        ({"a": 3}, "'a': the header's entry is not an object"),
        (
            {"a": {**F32, "dtype": "F4"}},
            "'a': dtype 'F4' is not supported; allowed are F32, F16, BF16",
        ),
        ({"a": {**F32, "dtype": ["F32"]}}, "'a': dtype ['F32'] is not supported"),
        ({"a": {**F32, "shape": [-2]}}, "'a': shape [-2]"),
        ({"a": {**F32, "shape": 2}}, "'a': shape 2"),
        ({"a": {**F32, "data_offsets": [0]}}, "'a': data_offsets [0]"),
        ({"a": {**F32, "data_offsets": [8, 0]}}, "'a': F32 of shape [2] takes 8 bytes, not -8"),
        ({"a": {**F32, "shape": [3]}}, "'a': F32 of shape [3] takes 12 bytes, not 8"),
        (
            {"a": {**F32, "data_offsets": [12, 20]}},
            "'a': ends at byte 20 of the data, but the file holds 16: truncated",
        ),
        ({"a": F32, "b": {**F32, "data_offsets": [4, 12]}}, "'b': begins at byte 4 and overlaps"),
        ({"a": {**F32, "data_offsets": [8, 16]}}, "'a': begins at byte 8 and leaves a hole"),
        ({"a": F32}, "8 bytes after the last tensor"),
    ],
)
def test_broken_safetensors(tmp_path, header, problem):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, header, bytes(16))
    with pytest.raises(CheckpointError, match=re.escape(problem)) as caught:
        SafetensorsFile(path)
    assert str(path) in str(caught.value)


def test_misaligned_tensors_are_read(tmp_path):
    """The format allows a header of any length."""
    path = tmp_path / "model.safetensors"
    text = json.dumps({"a": F32}).encode()
    values = np.array([1.5, -2.5], dtype=np.float32)
    for padding in range(4):
        write_safetensors(path, text + b" " * padding, values.tobytes())
        tensor = SafetensorsFile(path).tensor("a")
        assert tensor.flags.aligned
        assert np.array_equal(tensor, values)


SIZES = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I8": 1, "F8_E5M2": 1}
VALUES = [None, True, -1, 0, 1, 2.0, 2**64, "F32", [], [0], [1, 2, 3], [1] * 9, {}]


def random_header(random: random.Random) -> tuple[dict[str, Any], int]:
    """Tensors one after another, and the bytes that they take."""
    header, end = {}, 0
    for name in random.sample("abcdef", random.randint(1, 4)):
        shape = [random.randint(0, 3) for _ in range(random.randint(0, 3))]
        dtype = random.choice([*SIZES, *["F32", "F16", "BF16"] * 6])
        begin, end = end, end + int(np.prod(shape)) * SIZES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    return dict(random.sample([*header.items()], len(header))), end


def spoil(entry: dict[str, Any], random: random.Random) -> None:
    """Do one thing to one field of a tensor's entry, which may leave it as it is."""
    field = random.choice([*entry])
    match random.choice(["omit", "replace", "nudge", "stretch"]):
        case "omit":
            del entry[field]
        case "replace":
            entry[field] = random.choice(VALUES)
        case "nudge":
            entry["data_offsets"] = [offset + random.randint(-4, 4) for offset in entry["data_offsets"]]
        case "stretch":
            entry["shape"] = [*entry["shape"], random.randint(0, 2)]


MORE_IS_REFUSED = "is not supported; allowed are|a key occurs twice|is not a list of at most 8 counts"


def random_file(random: random.Random) -> bytes:
    """A safetensors file with a fault or without one."""
    header, size = random_header(random)
    if random.random() < 0.4:
        spoil(header[random.choice([*header])], random)
    text = json.dumps(header).encode()
    if random.random() < 0.05:
        text = text[:-1] + b", " + text[1:]  # every name twice
    size = max(0, size + random.choice([0] * 8 + [-1, 1]))
    return struct.pack("<Q", len(text)) + text + random.randbytes(size)


def read_by_library(content: bytes) -> dict[str, tuple[tuple[int, ...], bytes]] | None:
    """Each tensor's shape and bytes; None where the file is refused."""
    try:
        tensors = safetensors.deserialize(content)
    except safetensors.SafetensorError:
        return None
    return {name: (tuple(tensor["shape"]), bytes(tensor["data"])) for name, tensor in tensors}


def read(path: Path) -> dict[str, tuple[tuple[int, ...], bytes]] | str:
    """The same by our reader; why it refuses the file where it does."""
    try:
        file = SafetensorsFile(path)
    except CheckpointError as error:
        return str(error)
    return {name: (file.shape(name), file.tensor(name).tobytes()) for name in file}


def test_the_reader_reads_what_the_safetensors_library_reads(tmp_path):
    """What this reader refuses beyond it: other types of numbers, names that occur twice, and very many axes."""
    generator, path = random.Random(3), tmp_path / "model.safetensors"
    num_read = 0
    for _ in range(600):
        path.write_bytes(content := random_file(generator))
        found, expected = read(path), read_by_library(content)
        if isinstance(found, str):
            assert expected is None or re.search(MORE_IS_REFUSED, found), content
        else:
            assert found == expected, content
            num_read += 1
    assert 150 < num_read < 450
