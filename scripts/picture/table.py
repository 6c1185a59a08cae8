"""The table of the packages: what is in each, by the first sentence of its docstring, in the order of the picture."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from scripts.picture.layout import Box, Layout
from scripts.picture.rooms import read_house

_WIDTH = 1000.0  # any: the order does not depend on it
_HEAD = "| package | what is in it |\n|---|---|\n"
_TABLE = re.compile(f"^{re.escape(_HEAD)}(?:\\|.*\n)*", re.MULTILINE)


def with_table(page: str, root: Path) -> str:
    """A page with the table of the packages below a root in the place of the one that it has."""
    house = read_house(root)
    packages = _packages(Layout(house, root).box(house, _WIDTH))
    rows = [_row(package, root) for package in packages if package.is_relative_to(root / "services")]
    return _TABLE.sub(lambda _: _HEAD + "".join(rows), page)


def _packages(box: Box) -> Iterator[Path]:
    if box.room is not None and box.room.files:
        yield box.room.files[0].parent
    for inner in box.boxes:
        yield from _packages(inner)


def _row(package: Path, root: Path) -> str:
    name = package.relative_to(root / "services").as_posix()
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    return f"| [`{name}`](../../services/{name}) | {docstring.partition(chr(10))[0]} |\n"
