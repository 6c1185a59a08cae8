"""docs/inside/tested.md: every test that it names exists, and `make test` runs it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "inside" / "tested.md"
ROW = re.compile(r"^\| (?P<promise>[^|]+) \| `(?P<file>tests/[^`:]+)::(?P<name>\w+)` \|$", re.MULTILINE)
ROWS = [(match["file"], match["name"]) for match in ROW.finditer(PAGE.read_text())]


def decorators_of(path: Path, name: str) -> list[str]:
    """Of a test, or of what else has the name in the module; raises AssertionError if there is none."""
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return [ast.unparse(each) for each in node.decorator_list]
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets):
            return []
    raise AssertionError(f"{path} has no {name}")


@pytest.mark.parametrize(("file", "name"), ROWS, ids=[name for _, name in ROWS])
def test_a_test_that_holds_a_promise_exists_and_is_not_left_out(file: str, name: str):
    assert not any("mark.exhaustive" in each and "param" not in each for each in decorators_of(ROOT / file, name))


def test_every_row_of_a_table_is_read():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    lines = [line for line in rows if not line.startswith("| promise")]
    assert len(lines) == len(ROWS) > 50
    assert len({*ROWS}) == len(ROWS), "a test holds two promises"
