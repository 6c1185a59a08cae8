"""Which peers are here, for a format of weights, and why the others are not."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from services.bench.contender import Contender
from services.bench.experiments.peers.llama_server import LlamaServer
from services.bench.experiments.peers.python_peer import PythonPeer
from services.bench.setting import Setting
from services.engine.config import CPU
from services.engine.hub.fetched_model import fetch

_GGUF = {"bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}  # what peers call a format, in the names of their files
_OPENVINO = {"bf16": "fp16", "int8": "int8", "int4": "int4"}
_PINNED = ("OMP_PROC_BIND=true", "OMP_PLACES=cores")
_PROCESSES = "services.bench.experiments.peers"


@dataclass
class InstalledPeers:
    """Finds them; `absent` fills up with names and reasons."""

    llama_server: Path | None  # the program
    gguf: Path | None  # folder of target-bf16.gguf, draft-q4_0.gguf, …
    openvino_python: Path | None  # an interpreter that has openvino_genai
    openvino: Path | None  # folder of target-fp16, draft-int4, …
    absent: dict[str, str] = field(default_factory=dict)

    def of(self, setting: Setting, log: IO[str]) -> Iterator[tuple[str, AbstractContextManager[Contender]]]:
        """Those that have this setting's formats, by name, each to be entered where it is to start."""
        for engine, peer in {
            "transformers": self._transformers,
            "OpenVINO GenAI": self._openvino,
            "llama.cpp": self._llama,
        }.items():
            name = f"{engine} {setting.weights}"
            found = peer(name, setting, log)
            if isinstance(found, str):
                self.absent[name] = found
            else:
                yield name, found

    def _transformers(self, name: str, setting: Setting, log: IO[str]) -> PythonPeer | str:
        if setting.weights != "bf16":
            return "it is measured in bf16 alone"
        if importlib.util.find_spec("transformers") is None:
            return "transformers is not installed"
        assert setting.models.draft is not None
        folders = (fetch(setting.models.target).path, fetch(setting.models.draft).path)
        return _python_peer("transformers", name, sys.executable, folders, setting, log, device=setting.device)

    def _openvino(self, name: str, setting: Setting, log: IO[str]) -> PythonPeer | str:
        if self.openvino_python is None or self.openvino is None:
            return "not named (--openvino-python, --openvino)"
        if not _imports(self.openvino_python, "openvino_genai"):
            return f"{self.openvino_python.name} does not import openvino_genai"
        folders = (
            self.openvino / f"target-{_OPENVINO[setting.weights]}",
            self.openvino / f"draft-{_OPENVINO[setting.draft_weights]}",
        )
        if missing := _missing(*folders):
            return missing
        return _python_peer("openvino", name, self.openvino_python, folders, setting, log)

    def _llama(self, name: str, setting: Setting, log: IO[str]) -> LlamaServer | str:
        if self.llama_server is None or self.gguf is None:
            return "not named (--llama-server, --gguf)"
        target = self.gguf / f"target-{_GGUF[setting.weights]}.gguf"
        draft = self.gguf / f"draft-{_GGUF[setting.draft_weights]}.gguf"
        if missing := _missing(self.llama_server, target, draft):
            return missing
        lengths = setting.draft_lengths
        return LlamaServer(name, self.llama_server, target=target, draft=draft, draft_lengths=lengths, log=log)


def _python_peer(
    kind: str,
    name: str,
    python: str | Path,
    folders: tuple[Path, Path],
    setting: Setting,
    log: IO[str],
    *,
    device: str | None = None,
) -> PythonPeer:
    threads = str(len(os.sched_getaffinity(0)))
    interpreter = str(Path(python).absolute())  # not resolved: a link into a virtual environment is what makes it one
    models = [str(folder.resolve()) for folder in folders]
    command = [interpreter, "-m", f"{_PROCESSES}.{kind}_process", *models, threads, *([device] if device else [])]
    if kind == "transformers" and device == CPU:  # a GPU's compiles on all cores
        command = ["env", *_PINNED, f"OMP_NUM_THREADS={threads}", *command]
    return PythonPeer(name, command, draft_lengths=setting.draft_lengths, log=log)


def _imports(python: Path, module: str) -> bool:
    command = [str(python), "-c", f"import {module}"]
    return python.exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def _missing(*paths: Path) -> str:
    names = [path.name for path in paths if not path.exists()]
    return f"there is no {', '.join(names)}" if names else ""
