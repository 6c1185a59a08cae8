"""A path that is no regular file, or too large a file, is refused by its name before it is read."""

import os
import struct
from pathlib import Path

import pytest

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.model_file import read_model_file, read_model_text
from services.engine.text.tokenizer import Tokenizer
from services.target.prompt.chat_template import ChatTemplate
from tests.harness.models.checkpoints import Kind, copy_of, edit_json, random_checkpoint

pytestmark = pytest.mark.process

_FEW_BYTES = 1 << 20  # than which each that is too large is larger, and all others together are less
FILES = [
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
]


@pytest.fixture
def folder(tmp_path) -> Path:
    return copy_of(random_checkpoint(Kind.LLAMA), tmp_path)


def load(folder: Path) -> None:
    """Read all but the weights."""
    ChatTemplate.from_folder(folder)
    load_checkpoint(folder).check_vocabulary(Tokenizer.from_folder(folder))


def bytes_read() -> int:
    """How much this process has read from files until now."""
    return int(Path("/proc/self/io").read_text().split()[1])


def assert_refused_unread(folder: Path, name: str, problem: str) -> None:
    began = bytes_read()
    with pytest.raises(CheckpointError) as refused:
        load(folder)
    assert bytes_read() - began < _FEW_BYTES
    assert str(folder / name) in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), os.mkfifo, os.mkdir])
def test_a_path_that_is_no_regular_file_is_refused(folder, name, make):
    path = folder / name
    path.unlink(missing_ok=True)
    make(path)
    assert_refused_unread(folder, name, "is not a regular file")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("config.json", 1 << 20),
        ("generation_config.json", 1 << 20),
        ("tokenizer.json", 128 << 20),
        ("tokenizer_config.json", 16 << 20),
        ("special_tokens_map.json", 1 << 20),
        ("chat_template.jinja", 1 << 20),
    ],
)
def test_a_file_that_is_too_large_is_refused(folder, name, most):
    path = folder / name
    path.touch()
    os.truncate(path, most + 1)
    assert_refused_unread(folder, name, f"has {most + 1} bytes; it may have at most {most}")


def test_a_header_that_is_too_large_is_refused(folder):
    """The file is as large as the header says, and sparse."""
    size, path = 95_000_000, folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", size) + b'{"a": ')
    os.truncate(path, size + 8)
    assert_refused_unread(folder, path.name, f"the header has {size} bytes; it may have at most {8 << 20}")


def test_a_link_to_a_regular_file_is_read(folder):
    """The cache of the hub has nothing else."""
    for name in FILES:
        if (path := folder / name).exists():
            path.rename(folder / f"blob of {name}")
            path.symlink_to(f"blob of {name}")
    load(folder)


def test_an_index_of_many_files_is_refused(tmp_path):
    folder = copy_of(random_checkpoint(Kind.LLAMA, sharded=True), tmp_path)
    index = folder / "model.safetensors.index.json"
    edit_json(index, weight_map={f"tensor {i}": f"file {i}" for i in range(1025)})
    assert_refused_unread(folder, index.name, "field 'weight_map': names 1025 files; it may name at most 1024")


def test_a_file_is_read_as_it_is(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xff\x00")
    assert read_model_file(path, most_bytes=2) == b"\xff\x00"
    with pytest.raises(CheckpointError, match="cannot be read as UTF-8"):
        read_model_text(path, most_bytes=2)
    with pytest.raises(CheckpointError, match="no such file"):
        read_model_file(tmp_path / "other", most_bytes=2)
