"""Which Python runs an example: its own environment's, or this one where that has all that it needs."""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from scripts.example_environments import ENVIRONMENTS, ROOT, requirements

EXAMPLES = ROOT / "examples"


def python_of(name: str, needed: list[str]) -> str:
    """The interpreter; skips the test where there is none."""
    if (own := ENVIRONMENTS / name / "bin" / "python").exists():
        return str(own)
    try:
        for each in needed:
            version(re.split(r"[\\[=]", each)[0])
    except PackageNotFoundError as missing:
        pytest.skip(f"NOT RUN: {missing} is not installed; make examples-test installs what {name} needs")
    return sys.executable


def run_example(name: str, *where: str) -> str:
    """What a program of examples/ prints."""
    program = EXAMPLES / f"{name}.py"
    command = [python_of(name, requirements(program)), str(program), *where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=Path("/"))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
