"""What a module of Python imports, read from its code."""

import ast
from collections.abc import Iterator
from collections.abc import Sequence as Seq


def imported(module: ast.Module, package: Seq[str]) -> Iterator[str]:
    """The full names of all that a module imports, wherever in it; `package` is the path of its own."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *filter(None, [node.module])])
            yield from (f"{name}.{alias.name}" for alias in node.names)
