"""The peers' own samplers: of their packages' sources the samplers alone are compiled, in build/peers."""

import ctypes
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.e2e.harness.models import ROOT

LLAMA, EXLLAMA = "llama-cpp-python==0.3.36", "exllamav2==0.3.2"
_FOLDER = ROOT / "build" / "peers"
_DOORS = Path(__file__).parent / "doors"
_LIBRARIES = {LLAMA: _FOLDER / "llama.lib", EXLLAMA: _FOLDER / "exllama.lib"}
_COMPILER = ["g++", "-std=c++20", "-O2", "-w", "-fPIC", "-shared"]


class MissingPeerError(Exception):
    """A peer's samplers are not there; the message says how they come."""


def library_of(peer: str) -> ctypes.CDLL:
    """A peer's compiled samplers; raises MissingPeerError."""
    if not _LIBRARIES[peer].exists():
        raise MissingPeerError(f"{peer}, whose samplers come with make peers-test")
    # Symbols are looked up when they are called: what needs a model is never reached, and never there.
    return ctypes.CDLL(str(_LIBRARIES[peer]), mode=os.RTLD_LAZY)


def install() -> None:
    """Fetch and compile what is missing."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if not _LIBRARIES[LLAMA].exists():
        source = _unpacked_llama() / "vendor" / "llama.cpp"
        folders = [source / "include", source / "ggml" / "include", source / "src", source / "common"]
        _compile(LLAMA, [source / "src" / "llama-sampler.cpp", _DOORS / "llama_doors.cpp"], folders)
    if not _LIBRARIES[EXLLAMA].exists():
        source = _unpacked_exllama() / "exllamav2" / "exllamav2_ext"
        files = [source / "cpp" / name for name in ("sampling.cpp", "sampling_avx2.cpp", "profiling.cpp")]
        _compile(EXLLAMA, [*files, _DOORS / "exllama_doors.cpp"], [source])


def _compile(peer: str, files: list[Path], folders: list[Path]) -> None:
    print(f"compiling the samplers of {peer}", flush=True)
    ready = _LIBRARIES[peer].with_suffix(".part")
    includes = [f"-I{folder}" for folder in folders]
    subprocess.run([*_COMPILER, *includes, *map(str, files), "-o", str(ready)], check=True)
    ready.rename(_LIBRARIES[peer])


def _unpacked_llama() -> Path:
    with tarfile.open(_fetched(LLAMA, "--no-binary", ":all:")) as archive:
        archive.extractall(_FOLDER / "unpacked", filter="data")
    return _FOLDER / "unpacked" / LLAMA.replace("==", "-").replace("llama-cpp-python", "llama_cpp_python")


def _unpacked_exllama() -> Path:
    target = _FOLDER / "unpacked"
    with zipfile.ZipFile(_fetched(EXLLAMA, "--only-binary", ":all:")) as archive:
        archive.extractall(target)
    return target


def _fetched(peer: str, *options: str) -> Path:
    folder = _FOLDER / peer.partition("==")[0]
    for archive in folder.glob(f"*{peer.partition('==')[2]}*"):
        return archive
    print(f"fetching {peer}", flush=True)
    free = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), *options, peer]
    subprocess.run(command, check=True, env=free)
    (archive,) = folder.iterdir()
    return archive
