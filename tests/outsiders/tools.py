"""The programs of others, and where they are: build/outsiders, which `make doors-test` fills."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.harness.models import ROOT

_HERE = Path(__file__).parent
_INSTALLED = ROOT / "build" / "outsiders"
SCRIPTS = _HERE / "scripts"
TOOLS = tuple(sorted(path.stem for path in (_HERE / "requirements").glob("*.txt")))


class MissingToolError(Exception):
    """A program is not installed; the message says which."""


def are_missing() -> bool:
    """Whether none is installed."""
    return not _INSTALLED.is_dir()


def bin_of(tool: str) -> Path:
    """The folder of a tool's commands; raises MissingToolError."""
    folder = _INSTALLED / tool / "bin"
    if not (folder / "pip").exists():
        raise MissingToolError(f"{tool}, which comes with make doors-test")
    return folder


def node_script() -> list[str]:
    """The command that runs the openai package of npm; raises MissingToolError."""
    folder = _INSTALLED / "node"
    if shutil.which("node") is None:
        raise MissingToolError("node")
    if not (folder / "node_modules" / "openai").is_dir():
        raise MissingToolError("the openai package of npm, which comes with make doors-test")
    return ["node", str(shutil.copy(_HERE / "node" / "use_openai.js", folder / "use_openai.mjs"))]


def install() -> None:
    """Install missing tools, each with its own requirements."""
    free = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    for tool in TOOLS:
        wanted = _HERE / "requirements" / f"{tool}.txt"
        marked = _INSTALLED / tool / wanted.name
        if marked.exists() and marked.read_bytes() == wanted.read_bytes():
            continue
        print(f"installing {tool}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(_INSTALLED / tool)], check=True)
        pip = [str(_INSTALLED / tool / "bin" / "pip"), "install", "-q", "-r", str(wanted)]
        subprocess.run(pip, check=True, env=free)
        shutil.copy(wanted, marked)
    if shutil.which("npm") is not None:
        (_INSTALLED / "node").mkdir(parents=True, exist_ok=True)
        shutil.copy(_HERE / "node" / "package.json", _INSTALLED / "node")
        subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=_INSTALLED / "node", check=True)
