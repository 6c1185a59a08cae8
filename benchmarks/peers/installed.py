"""InstalledPeers: the peers that can be measured with a format of weights, and why the others cannot."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO

from benchmarks.peers.capacity import Capacity
from benchmarks.peers.llama_server import LlamaServer
from benchmarks.peers.python_peer import PythonPeer
from services.bench.contender import Contender
from services.bench.setting import Setting
from services.engine.config import CPU
from services.engine.hub.fetch import fetch

_GGUF = {"bf16": "bf16", "int8": "q8_0", "int4": "q4_0", "stored": "q4_k_m"}  # a format in the names of peers' files
_OPENVINO = {"bf16": "fp16", "int8": "int8", "int4": "int4"}
_PINNED = ("OMP_PROC_BIND=true", "OMP_PLACES=cores")
ENGINES = ("transformers", "OpenVINO GenAI", "llama.cpp", "vLLM")
_PROCESSES = "benchmarks.peers"


@dataclass
class InstalledPeers:
    """Finds the peers; `absent` collects the reason for each one that is missing, `versions` those of the engines."""

    llama_server: Path | None  # the program
    gguf: Path | None  # folder of target-bf16.gguf, draft-q4_0.gguf, …
    openvino_python: Path | None  # an interpreter that has openvino_genai
    openvino: Path | None  # folder of target-fp16, draft-int4, …
    vllm_python: Path | None = None  # an interpreter that has vllm
    capacity: Capacity = field(default_factory=Capacity)
    chosen: Seq[str] = ENGINES
    absent: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def of(self, setting: Setting, log: IO[str]) -> Iterator[tuple[str, AbstractContextManager[Contender]]]:
        """Yield the name of each peer that has this setting's formats, and a context manager that starts it."""
        ways = (self._transformers, self._openvino, self._llama, self._vllm)
        for engine, peer in zip(ENGINES, ways, strict=True):
            if engine not in self.chosen:
                continue
            name = f"{engine} {setting.weights}"
            found = peer(name, setting, log)
            if isinstance(found, str):
                self.absent[name] = found
            else:
                yield name, found

    def _transformers(self, name: str, setting: Setting, log: IO[str]) -> PythonPeer | str:
        if setting.weights != "bf16":
            return "it is measured in bf16 only"
        if importlib.util.find_spec("transformers") is None:
            return "transformers is not installed"
        folders = _folders(setting)
        self.versions["transformers"] = version("transformers")
        return _python_peer("transformers", name, sys.executable, folders, setting, log, device=setting.device)

    def _openvino(self, name: str, setting: Setting, log: IO[str]) -> PythonPeer | str:
        if self.openvino_python is None or self.openvino is None:
            return "not named (--openvino-python, --openvino)"
        if setting.weights not in _OPENVINO:
            return "it has no such format"
        if not (found := _version(self.openvino_python, "openvino-genai")):
            return f"{self.openvino_python.name} has no openvino-genai"
        self.versions["OpenVINO GenAI"] = found
        folders = (
            self.openvino / f"target-{_OPENVINO[setting.weights]}",
            self.openvino / f"draft-{_OPENVINO[setting.draft_weights]}",
        )
        if missing := _missing(*folders):
            return missing
        return _python_peer("openvino", name, self.openvino_python, folders, setting, log, has_auto=True)

    def _llama(self, name: str, setting: Setting, log: IO[str]) -> LlamaServer | str:
        if self.llama_server is None or self.gguf is None:
            return "not named (--llama-server, --gguf)"
        target = self.gguf / f"target-{_GGUF[setting.weights]}.gguf"
        draft = self.gguf / f"draft-{_GGUF[setting.draft_weights]}.gguf"
        if missing := _missing(self.llama_server, target, draft):
            return missing
        printed = subprocess.run([self.llama_server, "--version"], capture_output=True, text=True, check=False).stderr
        self.versions["llama.cpp"] = printed.splitlines()[0].removeprefix("version: ") if printed else "unknown"
        lengths = setting.draft_lengths
        models = {"target": target, "draft": draft}
        return LlamaServer(name, self.llama_server, **models, draft_lengths=lengths, capacity=self.capacity, log=log)

    def _vllm(self, name: str, setting: Setting, log: IO[str]) -> PythonPeer | str:
        if setting.weights != "bf16":
            return "it is measured in bf16 only"
        if self.vllm_python is None:
            return "not named (--vllm-python)"
        if not (found := _version(self.vllm_python, "vllm")):
            return f"{self.vllm_python.name} has no vllm"
        self.versions["vLLM"] = found
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        command = ["env", f"VLLM_CPU_OMP_THREADS_BIND={cores}", "VLLM_CPU_KVCACHE_SPACE=2", "VLLM_NO_USAGE_STATS=1"]
        if (openmp := self.vllm_python.absolute().parents[1] / "lib" / "libiomp5.so").exists():
            command.append(f"LD_PRELOAD={openmp}")  # it is much slower with GCC's OpenMP
        command += [_interpreter(self.vllm_python), "-m", f"{_PROCESSES}.vllm_process", *_folders(setting)]
        command += [str(self.capacity.sequences), str(self.capacity.positions)]
        return PythonPeer(name, command, draft_lengths=setting.draft_lengths, log=log)


def _python_peer(
    kind: str,
    name: str,
    python: str | Path,
    folders: Seq[str | Path],
    setting: Setting,
    log: IO[str],
    *,
    device: str | None = None,
    has_auto: bool = False,
) -> PythonPeer:
    threads = str(len(os.sched_getaffinity(0)))
    models = [str(Path(folder).resolve()) for folder in folders]
    command = [
        _interpreter(python),
        "-m",
        f"{_PROCESSES}.{kind}_process",
        *models,
        threads,
        *([device] if device else []),
    ]
    if kind == "transformers" and device == CPU:  # for a GPU it compiles on all cores
        command = ["env", *_PINNED, f"OMP_NUM_THREADS={threads}", *command]
    return PythonPeer(name, command, draft_lengths=setting.draft_lengths, has_auto=has_auto, log=log)


def _interpreter(python: str | Path) -> str:
    """Return the absolute path without resolving links: the link is what selects the virtual environment."""
    return str(Path(python).absolute())


def _folders(setting: Setting) -> list[str]:
    assert setting.models.draft is not None
    return [str(fetch(model).path.resolve()) for model in (setting.models.target, setting.models.draft)]


def _version(python: Path, package: str) -> str:
    """Return the package's version, or "" if it is not installed for that interpreter or there is no interpreter."""
    if not python.exists():
        return ""
    command = [str(python), "-c", f"from importlib.metadata import version; print(version({package!r}))"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _missing(*paths: Path) -> str:
    names = [path.name for path in paths if not path.exists()]
    return f"there is no {', '.join(names)}" if names else ""
