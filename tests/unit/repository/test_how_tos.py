"""The how-tos of CONTRIBUTING.md: the files that one names for its example are those that mention it, and no others."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ("clients", "native", "protos", "services")
SUFFIXES = {".cpp", ".cu", ".cuh", ".go", ".h", ".js", ".proto", ".py", ".pyi", ".txt", ".cmake"}
MOST_PLACES = {"a sampling parameter": 7, "an architecture": 3, "an instruction set": 3}


@dataclass(frozen=True)
class HowTo:
    """One section: its example, the places in the source to touch for one more like it, and those in the tests."""

    example: str
    places: list[str]
    tests: list[str]


def read_how_tos() -> dict[str, HowTo]:
    """By what is added."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return {
        title: HowTo(
            example=re.search(r"`(\w+)` is the example", section)[1],
            places=re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE),
            tests=re.findall(r"`(tests/[^`]+)`", section),
        )
        for title, section in re.findall(r"^## How to add ([^\n]+)\n(.+?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    }


HOW_TOS = read_how_tos()


def mentions(path: Path, example: str) -> bool:
    """Whether a file has a name in which the example is a word, as _read_olmo2 and OLMO2_NAMES have olmo2."""
    return re.search(rf"(?<![a-z0-9]){example}(?![a-z0-9])", path.read_text(), re.IGNORECASE) is not None


def written_by_hand(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return path.suffix in SUFFIXES and "_pb2" not in path.name and not {"build", "node_modules"} & {*parts}


def test_each_how_to_is_found() -> None:
    assert HOW_TOS.keys() == MOST_PLACES.keys()


@pytest.mark.parametrize("title", MOST_PLACES)
def test_a_how_to_names_the_places_that_mention_its_example(title: str) -> None:
    how_to = HOW_TOS[title]
    files = [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if written_by_hand(path)]
    mentioning = {str(path.relative_to(ROOT)) for path in files if mentions(path, how_to.example)}
    assert mentioning == {*how_to.places}
    assert len(how_to.places) <= MOST_PLACES[title]


@pytest.mark.parametrize("title", MOST_PLACES)
def test_the_tests_that_a_how_to_names_are_there(title: str) -> None:
    how_to = HOW_TOS[title]
    assert how_to.tests
    assert [path for path in how_to.tests if not (ROOT / path).exists()] == []
    if title != "an instruction set":  # which the tests take from the machine
        assert [path for path in how_to.tests if not mentions(ROOT / path, how_to.example)] == []
