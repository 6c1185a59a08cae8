"""Store: the reference transcripts of one build, and the results of its cells."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from services.engine.decoder.native import BUILD_ID
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_HEAD, MATRIX, ROOT, folder
from tests.e2e.matrix.cells import Cell
from tests.e2e.matrix.streams import StreamKey
from tests.e2e.matrix.transcript import Transcript

_SOURCES = ("services/**/*.py", "clients/python/**/*.py", "tests/e2e/**/*.py", "tests/harness/**/*.py", "tests/*.py")


@dataclass(frozen=True, slots=True)
class CellResult:
    """How one cell fared: no problems means that it passed."""

    name: str
    problems: list[str]
    seconds: float


class Store:
    """Files in a folder that belongs to one build and one set of models; nothing in it outlives a change of either."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("references", "results", "servers"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def reference(self, key: StreamKey) -> Transcript | None:
        """The transcript of the plainest run of a stream, if it is known."""
        return read_reference(self.root, key.name)

    def has_reference(self, key: StreamKey) -> bool:
        """Whether it is known."""
        return _reference_path(self.root, key.name).exists()

    def save_reference(self, key: StreamKey, transcript: Transcript) -> None:
        """Keep the transcript of the plainest run of a stream."""
        _write(_reference_path(self.root, key.name), transcript.to_json())

    def result(self, cell: Cell) -> CellResult | None:
        """How a cell fared, if it has run."""
        path = self.root / "results" / f"{cell.name}.json"
        return CellResult(**json.loads(path.read_text())) if path.exists() else None

    def save_result(self, result: CellResult) -> None:
        """Keep how a cell fared."""
        _write(self.root / "results" / f"{result.name}.json", asdict(result))


def read_reference(root: Path, name: str) -> Transcript | None:
    """The reference transcript of the stream with this name."""
    path = _reference_path(root, name)
    return Transcript.from_json(json.loads(path.read_text())) if path.exists() else None


def store_of_this_build(models: Iterable[str]) -> Store:
    """The store that belongs to the code and the models as they are now."""
    digest = hashlib.sha256(BUILD_ID.encode())
    files = {path for pattern in _SOURCES for path in ROOT.glob(pattern)}
    files |= {path for model in models for path in _files_of(folder(model))}
    files |= {path for draft in (DEMO_DRAFT, DEMO_HEAD) for path in _files_of(draft)}
    for path in sorted(files):
        digest.update(os.path.relpath(path, ROOT).encode() + hashlib.sha256(path.read_bytes()).digest())
    return Store(MATRIX / digest.hexdigest()[:16])


def _files_of(model: Path) -> list[Path]:
    return [model] if model.is_file() else [path for path in model.iterdir() if path.is_file()]


def _write(path: Path, value: object) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(value))
    draft.rename(path)


def _reference_path(root: Path, name: str) -> Path:
    return root / "references" / f"{name}.json"
