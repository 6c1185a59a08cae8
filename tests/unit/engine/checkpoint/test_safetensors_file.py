"""A safetensors file is checked whole before any of its tensors is used."""

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

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
        ({"a": {**F32, "dtype": "F8_E4M3"}}, "'a': dtype 'F8_E4M3' is not supported; allowed are F32, F16, BF16"),
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
