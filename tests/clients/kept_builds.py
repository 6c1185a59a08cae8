"""Builds of the clients, kept below `build`: a client is built again only where something has changed."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from pathlib import Path

from tests.clients import toolchains
from tests.clients.toolchains import TOOLCHAINS, build_client, sources_of
from tests.e2e.harness.models import ROOT

_BUILDS = ROOT / "build" / "test-clients"
_DEBIAN_PACKAGES = Path("/var/lib/dpkg/status")  # which changes with every package, and so with every library


def kept_client(language: str) -> list[str]:
    """The command of a client that was built from what there is now; raises as `build_client` does.

    Those that are slow to build are never kept: they are made of more than is looked at here.
    """
    toolchain = TOOLCHAINS[language]
    sources = [*sources_of(language), Path(toolchains.__file__)]
    programs = () if toolchain.is_slow else toolchain.programs
    return kept_build(language, lambda folder: build_client(language, folder), sources=sources, programs=programs)


def kept_build(name: str, build: Callable[[Path], list[str]], *, sources: Seq[Path], programs: Seq[str]) -> list[str]:
    """What `build` returned when it built in an empty folder, from these sources by these programs as they are now.

    Without programs it builds each time.
    """
    _BUILDS.mkdir(parents=True, exist_ok=True)
    with (_BUILDS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other runs of the tests may want it too
        folder = _BUILDS / name
        told, key = folder / "build.json", _key(sources, programs)
        if programs and told.exists() and (kept := json.loads(told.read_text()))["key"] == key:
            return [*kept["result"]]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        result = build(folder)
        told.write_text(json.dumps({"key": key, "result": result}))
        return result


def _key(sources: Seq[Path], programs: Seq[str]) -> str:
    """A digest of all that a build is made of: sources, tools, and the packages of the system."""
    digest = hashlib.sha256()
    for part in _parts(sources, programs):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _parts(sources: Seq[Path], programs: Seq[str]) -> Iterator[bytes]:
    for path in sources:
        yield str(path).encode()
        yield path.read_bytes()
    tools = [found for program in programs if (found := shutil.which(program))]
    for tool in (*map(Path, tools), _DEBIAN_PACKAGES):
        if tool.exists():
            state = tool.resolve().stat()
            yield f"{tool.resolve()} {state.st_size} {state.st_mtime_ns}".encode()
