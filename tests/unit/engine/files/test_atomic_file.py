"""atomic_file: a reader sees the file of before or the whole new one, and one process writes at a time."""

from pathlib import Path

import pytest

from services.engine.files.atomic_file import atomic_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "name"
    path.write_text("before")
    return path


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def test_the_file_appears_once_it_is_whole(path: Path) -> None:
    with atomic_file(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert names(path) == ["name"]


def test_an_error_leaves_the_old_file(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic_file(path) as file:
        file.write(bytes([1 // 0]))
    assert path.read_text() == "before"
    assert names(path) == ["name"]


def test_a_second_writer_is_refused(path: Path) -> None:
    with atomic_file(path) as file:
        file.write(b"after")
        with pytest.raises(BlockingIOError, match="another process is writing it"), atomic_file(path):
            pass
    assert path.read_text() == "after"


def test_a_late_writer_does_not_touch_the_others_file(path: Path, monkeypatch) -> None:
    def end_of_the_other(*_: object) -> None:
        path.with_name("name.part").rename(path)

    monkeypatch.setattr("fcntl.flock", end_of_the_other)
    path.with_name("name.part").write_text("the other's")
    with pytest.raises(BlockingIOError, match="another process has just written it"), atomic_file(path):
        pass
    assert path.read_text() == "the other's"


def test_the_part_file_of_a_killed_writer_is_overwritten(path: Path) -> None:
    path.with_name("name.part").write_text("much more than is written now")
    with atomic_file(path) as file:
        file.write(b"after")
    assert path.read_text() == "after"
    assert names(path) == ["name"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "folder" / "name"):
        pass
