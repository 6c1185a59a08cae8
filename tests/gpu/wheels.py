"""The wheels that a GPU's machine may lack: `python -m tests.gpu.wheels DIR` fetches them for its Python, into DIR/1
and DIR/2, as one call takes only half of them.

They are what the project, its tests and what is measured beside it need, at the versions of constraints.txt, and what
these need in turn. A machine that is lent has torch and numpy of its own.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement

_ROOT = Path(__file__).parents[2]
_OURS = "outrider"
# What the machine has.
OWN = frozenset(
    [
        "anyio",
        "certifi",
        "charset-normalizer",
        "click",
        "execnet",
        "filelock",
        "fsspec",
        "h11",
        "hf-xet",
        "hypothesis",
        "idna",
        "iniconfig",
        "jinja2",
        "markdown-it-py",
        "markupsafe",
        "mdurl",
        "mpmath",
        "networkx",
        "ninja",
        "numpy",
        "pluggy",
        "psutil",
        "pygments",
        "pyyaml",
        "regex",
        "requests",
        "rich",
        "safetensors",
        "setuptools",
        "shellingham",
        "sortedcontainers",
        "sympy",
        "torch",
        "tqdm",
        "typer",
        "typing-extensions",
        "urllib3",
    ]
)
MAX_BYTES = 20 * 2**20  # with the files of the project less than a machine that is lent takes in one call, 64 MiB
_TESTS = ("hypothesis", "mpmath", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist")
_NEEDED = (*_TESTS, "compressed-tensors", "mmasim", "transformers")
_BUILDING = ("packaging", "pathspec", "pybind11", "scikit-build-core")  # which pip installs apart on this machine
_PLATFORMS = [
    *(f"manylinux_2_{version}_x86_64" for version in (39, 35, 34, 31, 28, 27, 24, 17)),
    "manylinux2014_x86_64",
]


def main() -> None:
    """Fetch all and say how large they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="DIR", help="where they go")
    parser.add_argument("--python", default="3.12", metavar="VERSION", help="of that machine (%(default)s)")
    options = parser.parse_args()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", options.python, "--implementation", "cp", "--dest", str(options.out)]
    command += [part for platform in _PLATFORMS for part in ("--platform", platform)]
    subprocess.run([*command, *pins(carried())], check=True)
    sizes = divide(options.out)
    print(" and ".join(f"{size / 2**20:.0f} MiB" for size in sizes), "of wheels")
    if max(sizes) > MAX_BYTES:
        sys.exit(f"a half of the wheels may have {MAX_BYTES / 2**20:.0f} MiB: name in OWN what the machine has")


def divide(folder: Path) -> list[int]:
    """Move the wheels of a folder into its folders 1 and 2, the largest first to the lighter one; returns the bytes of
    both.
    """
    sizes = [0, 0]
    for wheel in sorted(folder.glob("*.whl"), key=lambda path: (-path.stat().st_size, path.name)):
        lighter = sizes.index(min(sizes))
        sizes[lighter] += wheel.stat().st_size
        half = folder / str(lighter + 1)
        half.mkdir(exist_ok=True)
        wheel.replace(half / wheel.name)
    return sizes


def carried() -> set[str]:
    """The names of all distributions that are carried."""
    needed = {*_NEEDED, *(name for name in _requirements_of(_OURS) if not name.startswith(_OURS)), *_BUILDING}
    needed |= _requirements_of(f"{_OURS}-client")
    found: set[str] = set()
    while new := needed - found - OWN:
        found |= new
        needed = {each for name in new if name not in _BUILDING for each in _requirements_of(name)}
    return found


def pins(names: Iterable[str]) -> list[str]:
    """Each with its version in constraints.txt; raises KeyError for one that has none there."""
    lines = (_ROOT / "constraints.txt").read_text().splitlines()
    versions = {_normal(name): version for name, _, version in (line.partition("==") for line in lines)}
    return [f"{name}=={versions[name]}" for name in sorted(names)]


def _requirements_of(name: str) -> set[str]:
    distribution(name)  # raises where it is not installed
    wanted = map(Requirement, requires(name) or [])
    return {_normal(each.name) for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
