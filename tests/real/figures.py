"""Figures: rows of tables that take long to measure, kept for the code and the models that they are of."""

import json
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from pathlib import Path

from services.engine.files.atomic_file import atomic_file


class Figures:
    """A file of rows by their names; an interrupted part continues with the first missing row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}

    def rows(self, names: Seq[str], measure: Callable[[list[str]], Iterator[str]]) -> Iterator[str]:
        """The row of each name, in their order; `measure` yields those of the names that it is given."""
        missing = [name for name in names if name not in self._rows]
        measured = measure(missing) if missing else iter(())
        for name in names:
            if name in missing:
                self._rows[name] = next(measured)
                self._save()
            yield self._rows[name]

    def _save(self) -> None:
        with atomic_file(self._path) as file:
            file.write(json.dumps(self._rows).encode())
