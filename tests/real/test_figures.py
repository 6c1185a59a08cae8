"""Rows measured before an interruption are not measured again, and stand where they belong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.figures import Figures

NAMES = ["a", "b", "c"]


def test_measuring_continues_with_the_first_missing_row(tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def measure(names: list[str]) -> Iterator[str]:
        asked.append(names)
        for name in names:
            if name == "c" and len(asked) == 1:
                raise KeyboardInterrupt
            yield f"{name} by {len(asked)}"

    path = tmp_path / "figures.json"
    with pytest.raises(KeyboardInterrupt):
        [*Figures(path).rows(NAMES, measure)]
    assert [*Figures(path).rows(NAMES, measure)] == ["a by 1", "b by 1", "c by 2"]
    assert [*Figures(path).rows(["c", "a"], measure)] == ["c by 2", "a by 1"]
    assert asked == [NAMES, ["c"]]
