"""The clients of other languages: how each is built from a copy of its folder."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.models import ROOT

_BUILD_SECONDS = 280
_DEBIAN_GO_PACKAGES = Path("/usr/share/gocode")
_GO_IMPORTS = ("grpc", "genproto/googleapis/rpc/errdetails", "protobuf/proto")
_NO_NETWORK = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT")  # as npm names it
_NO_CPP_LIBRARY = ('configuration file provided by "gRPC"', "Could NOT find Protobuf")  # as CMake says it


class MissingToolError(Exception):
    """This machine lacks something that a client is built with; the message says what."""


@dataclass(frozen=True)
class Toolchain:
    """What a language needs: its programs, which `make client-deps` installs, and what turns a copied folder into a
    command.
    """

    programs: tuple[str, ...]
    build: Callable[[Path], list[str]]
    resumes: bool = False


def build_client(language: str, folder: Path) -> list[str]:
    """Copy the client and the protos into an empty folder, build it there, and return the command that runs it.

    Raises MissingToolError if the machine lacks a tool, and AssertionError with the build's output if it fails.
    """
    toolchain = TOOLCHAINS[language]
    for program in toolchain.programs:
        if shutil.which(program) is None:
            raise MissingToolError(program)
    client = folder / "clients" / language
    leftovers = shutil.ignore_patterns("node_modules", "build", "v1")
    shutil.copytree(ROOT / "clients" / language, client, ignore=leftovers)
    shutil.copytree(ROOT / "protos", folder / "protos")
    return toolchain.build(client)


def _build_node(folder: Path) -> list[str]:
    installed = _run(["npm", "install", "--no-audit", "--no-fund"], folder)
    if any(f"code {code}" in installed.stdout for code in _NO_NETWORK):
        raise MissingToolError(f"a registry that npm can reach; it said:\n{installed.stdout}")
    _check(installed)
    return ["node", str(folder / "stream.js")]


def _build_go(folder: Path) -> list[str]:
    """Build with the distribution's packages, which needs no module proxy."""
    for name in _GO_IMPORTS:
        if not (_DEBIAN_GO_PACKAGES / "src" / "google.golang.org" / name).is_dir():
            raise MissingToolError(f"the package google.golang.org/{name}")
    workspace = folder.parents[1] / "go"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "outrider").symlink_to(folder)
    offline = {"GO111MODULE": "off", "GOPATH": f"{workspace}:{_DEBIAN_GO_PACKAGES}", "GOFLAGS": ""}
    _check(_run(["go", "generate"], folder, offline))
    _check(_run(["go", "build", "-p", "2", "-o", "build/", "outrider/cmd/stream"], folder, offline))
    return [str(folder / "build" / "stream")]


def _build_cpp(folder: Path) -> list[str]:
    """Build few translation units, since most of the time goes into gRPC's headers, and none twice with ccache."""
    cached = {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    configured = _run(["cmake", "-S", ".", "-B", "build", "-DCMAKE_UNITY_BUILD=ON", *launcher], folder)
    if any(words in configured.stdout for words in _NO_CPP_LIBRARY):
        raise MissingToolError(f"gRPC for C++; CMake said:\n{configured.stdout}")
    _check(configured)
    _check(_run(["cmake", "--build", "build", "--parallel", "2"], folder, cached))
    return [str(folder / "build" / "stream")]


def _run(
    command: Seq[str], folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )


def _check(finished: "subprocess.CompletedProcess[str]") -> None:
    assert finished.returncode == 0, f"{finished.args} ended with {finished.returncode}:\n{finished.stdout}"


TOOLCHAINS = {
    "node": Toolchain(("node", "npm"), _build_node, resumes=True),
    "go": Toolchain(("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc"), _build_go, resumes=True),
    "cpp": Toolchain(("cmake", "c++", "protoc", "grpc_cpp_plugin"), _build_cpp, resumes=True),
}
