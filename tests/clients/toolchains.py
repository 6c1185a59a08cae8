"""The clients of other languages: how each is built from a copy of its folder."""

import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.harness.models import ROOT

_BUILD_SECONDS = 1200  # of one step, where nothing is cached and other tests run beside it
_DEBIAN_GO_PACKAGES = Path("/usr/share/gocode")
_GO_IMPORTS = ("grpc", "genproto/googleapis/rpc/errdetails", "protobuf/proto")
_PROTOS = tuple(f"outrider/v1/{name}.proto" for name in ("common", "errors", "generation"))
_DEBIAN_JARS = Path("/usr/share/java")
_JARS = (
    *(f"grpc-{name}" for name in ("api", "context", "core", "netty", "protobuf", "protobuf-lite", "stub")),
    *(f"netty-{name}" for name in ("buffer", "codec", "codec-http", "codec-http2", "common", "handler", "resolver")),
    *("netty-transport", "netty-transport-native-unix-common", "netty-tcnative", "protobuf", "guava", "perfmark-api"),
    "geronimo-annotation-1.3-spec",
)
_DEBIAN_CRATES = Path("/usr/share/cargo/registry")
_CRATES = (
    "base64-0.13",
    "h2-0.3",
    "prost-0.11",
    "prost-build-0.11",
    "rustls-pemfile-1",
    "tokio-1",
    "tokio-rustls-0.23",
)
_LEFTOVERS = ("node_modules", "build", "lib", "target", "v1")  # of builds in the checkout itself
_ENDINGS = Path(__file__).with_name("endings")
_PROTOBUF_CSHARP = ROOT / "build" / "protobuf-csharp"
_NO_NETWORK = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT")  # as npm names it
_NO_CPP_LIBRARY = ('configuration file provided by "gRPC"', "Could NOT find Protobuf")  # as CMake says it


class MissingToolError(Exception):
    """This machine lacks something that a client is built with; the message says what."""


@dataclass(frozen=True)
class Toolchain:
    """What a language needs: its programs, which `make client-deps` installs, and what turns a copied folder into a
    command; whether the client resumes; whether it is slow to build and start, so that `make client-test` alone does.
    """

    programs: tuple[str, ...]
    build: Callable[[Path], list[str]]
    resumes: bool = False
    is_slow: bool = False


def build_client(language: str, folder: Path) -> list[str]:
    """Copy the client and the protos into an empty folder, build it there, and return the command that runs it.

    Beside the program of a library lies the one that `endings` has for it.

    Raises MissingToolError if the machine lacks a tool, and AssertionError with the build's output if it fails.
    """
    toolchain = TOOLCHAINS[language]
    for program in toolchain.programs:
        if shutil.which(program) is None:
            raise MissingToolError(program)
    client = folder / "clients" / language
    shutil.copytree(ROOT / "clients" / language, client, ignore=shutil.ignore_patterns(*_LEFTOVERS))
    shutil.copytree(ROOT / "protos", folder / "protos")
    if toolchain.resumes:
        shutil.copytree(_ENDINGS / language, client, dirs_exist_ok=True)
    return toolchain.build(client)


def sources_of(language: str) -> list[Path]:
    """All files that `build_client` copies."""
    client = ROOT / "clients" / language
    own = [path for path in client.rglob("*") if not {*_LEFTOVERS} & {*path.relative_to(client).parts}]
    further = [*(ROOT / "protos").rglob("*"), *(_ENDINGS / language).rglob("*")]
    return sorted(path for path in (*own, *further) if path.is_file())


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
    programs = ["outrider/cmd/stream", "outrider/cmd/ending"]
    _check(_run(["go", "build", "-p", "2", "-o", "build/", *programs], folder, offline))
    return [str(folder / "build" / "stream")]


def _build_cpp(folder: Path) -> list[str]:
    """Build few translation units, since most of the time goes into gRPC's headers, and none twice with ccache."""
    cached = {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    options = ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_PROJECT_outrider_client_INCLUDE=ending.cmake", *launcher]
    configured = _run(["cmake", "-S", ".", "-B", "build", *options], folder)
    if any(words in configured.stdout for words in _NO_CPP_LIBRARY):
        raise MissingToolError(f"gRPC for C++; CMake said:\n{configured.stdout}")
    _check(configured)
    _check(_run(["cmake", "--build", "build", "--parallel", "2"], folder, cached))
    return [str(folder / "build" / "stream")]


def _build_ruby(folder: Path) -> list[str]:
    found = _run(["ruby", "-e", "require 'grpc'"], folder)
    if found.returncode != 0:
        raise MissingToolError(f"gRPC for Ruby; it said:\n{found.stdout}")
    (folder / "lib").mkdir()
    options = ["-I", "../../protos", "--ruby_out=lib", "--grpc_out=lib"]
    _check(_run(["grpc_tools_ruby_protoc", *options, *_PROTOS], folder))
    return ["ruby", str(folder / "stream.rb")]


def _build_java(folder: Path) -> list[str]:
    """Build with the distribution's packages, which needs no repository of Maven's."""
    jars = [_DEBIAN_JARS / f"{name}.jar" for name in _JARS]
    if missing := [jar.name for jar in jars if not jar.exists()]:
        raise MissingToolError(missing[0])
    if not (found := [*Path("/usr/lib").glob("*/jni/libnetty-tcnative.so")]):
        raise MissingToolError("libnetty-tcnative.so")
    stubs, path = folder / "build" / "stubs", os.pathsep.join(["build", *map(str, jars)])
    stubs.mkdir(parents=True)
    shutil.copy(found[0], folder / "build" / "libnetty_tcnative.so")  # the name by which Netty looks for it
    plugin = f"--plugin=protoc-gen-grpc-java={shutil.which('grpc_java_plugin')}"
    options = ["-I", "../../protos", plugin, f"--java_out={stubs}", f"--grpc-java_out={stubs}"]
    _check(_run(["protoc", *options, *_PROTOS], folder))
    options = ["-encoding", "UTF-8", "-nowarn", "-proc:none", "-cp", path, "-sourcepath", str(stubs), "-d", "build"]
    _check(_run(["javac", *options, "Stream.java"], folder))
    path = path.replace("build", str(folder / "build"), 1)
    options = ["-XX:TieredStopAtLevel=1", f"-Djava.library.path={folder / 'build'}", "-cp", path]
    return ["env", "LC_ALL=C.UTF-8", "java", *options, "Stream"]  # Java reads the command line by the locale


def _build_rust(folder: Path) -> list[str]:
    """Build with the distribution's sources of crates, which needs no registry."""
    for crate in _CRATES:
        if not [*_DEBIAN_CRATES.glob(f"{crate}.*")]:
            raise MissingToolError(f"the crate {crate}")
    sources = {"crates-io.replace-with": "debian", "debian.directory": str(_DEBIAN_CRATES)}
    options = [f'--config=source.{name}="{value}"' for name, value in sources.items()]
    _check(_run(["cargo", "build", "--offline", "--jobs=2", *options], folder))
    return [str(folder / "target" / "debug" / "stream")]


def _build_csharp(folder: Path) -> list[str]:
    """Build with Mono's compiler for the runtime of .NET Core that PyPI has, which needs no SDK and no NuGet."""
    package = importlib.util.find_spec("dotnetcore2")
    if package is None or package.origin is None:
        raise MissingToolError("the package dotnetcore2")
    if not _PROTOBUF_CSHARP.is_dir():
        raise MissingToolError("protobuf's C# library")
    dotnet = Path(package.origin).parent / "bin"
    build = folder / "build"
    build.mkdir()
    _check(_run(["protoc", "-I", "../../protos", "--csharp_out=build", *_PROTOS], folder))
    found = [path for where in (folder, _PROTOBUF_CSHARP) for path in where.rglob("*.cs")]
    sources = sorted(found, key=lambda path: path.name != "Descriptor.cs")  # whose aliases get lost after others
    (framework,) = (dotnet / "shared" / "Microsoft.NETCore.App").iterdir()
    libraries = [path for path in framework.glob("System.*.dll") if "WindowsRuntime" not in path.name]
    options = ["-out:build/stream.dll", "-unsafe", "-langversion:latest", "-nostdlib", "-noconfig"]
    _check(_run(["mcs", *options, *(f"-r:{library}" for library in libraries), *map(str, sources)], folder))
    needed = {"name": framework.parent.name, "version": framework.name}
    (build / "stream.runtimeconfig.json").write_text(json.dumps({"runtimeOptions": {"framework": needed}}))
    shim = Path(__file__).with_name("openssl_1_1.c")
    _check(_run(["cc", "-shared", "-fPIC", "-o", "build/libssl.so.shim", str(shim), "-lssl", "-lcrypto"], folder))
    tls = [f"LD_LIBRARY_PATH={build}", "CLR_OPENSSL_VERSION_OVERRIDE=shim"]
    environment = [*tls, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1"]  # so that no library of Unicode's is needed
    return ["env", *environment, str(dotnet / "dotnet"), str(build / "stream.dll")]


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


TOOLCHAINS = {  # those that start fast first: they get the cases that one language is enough for
    "go": Toolchain(("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc"), _build_go, resumes=True),
    "cpp": Toolchain(("cmake", "c++", "protoc", "grpc_cpp_plugin"), _build_cpp, resumes=True),
    "node": Toolchain(("node", "npm"), _build_node, resumes=True),
    "ruby": Toolchain(("ruby", "grpc_tools_ruby_protoc"), _build_ruby),
    "java": Toolchain(("java", "javac", "protoc", "grpc_java_plugin"), _build_java, is_slow=True),
    "rust": Toolchain(("cargo", "protoc"), _build_rust, is_slow=True),
    "csharp": Toolchain(("mcs", "protoc", "cc"), _build_csharp, is_slow=True),
}
RESUMING = [name for name, toolchain in TOOLCHAINS.items() if toolchain.resumes]
