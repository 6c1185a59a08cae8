"""WatchedFiles: the value changes with the files, and only to one that fits."""

import logging
from collections.abc import Sequence as Seq
from pathlib import Path

import pytest

from services.engine.config import ConfigError
from services.service.access.watched_files import WatchedFiles


def read_pair(contents: Seq[bytes]) -> str:
    first, second = (content.decode() for content in contents)
    if first.lower() != second:
        raise ConfigError("the two do not fit")
    return first


def replace(path: Path, text: str) -> None:
    part = path.with_name("part")
    part.write_text(text)
    part.rename(path)


def test_a_pair_is_replaced_one_file_after_the_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("A")
    two.write_text("a")
    files = WatchedFiles([one, two], read_pair)
    assert files.value == "A"
    replace(one, "B")
    assert [files.value, files.value] == ["A", "A"]
    assert caplog.text.count("the two do not fit") == 1, "a change is told once"
    replace(two, "b")
    assert files.value == "B"
    assert caplog.text.count("was reloaded") == 1
    replace(two, "b")
    assert files.value == "B"
    assert caplog.text.count("was reloaded") == 1, "the same once more is no news"


def test_a_file_that_is_removed_keeps_its_last_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "file"
    path.write_text("A")
    files = WatchedFiles([path], lambda contents: contents[0].decode())
    path.unlink()
    assert files.value == "A"
    assert "cannot be read: No such file" in caplog.text
    path.write_text("B")
    assert files.value == "B"


def test_a_folder_that_a_link_leads_to_is_exchanged(tmp_path: Path) -> None:
    """As Kubernetes does with secrets: the file itself is never written."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "now").symlink_to("old")
    files = WatchedFiles([tmp_path / "now" / "file"], lambda contents: contents[0].decode())
    assert files.value == "old"
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").rename(tmp_path / "now")
    assert files.value == "new"
