"""tests/gpu.sh, as far as a machine without a GPU can tell: no step's end hides another's."""

import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "gpu.sh"


_TOOLS = (
    "bash",
    "cat",
    "df",
    "dirname",
    "env",
    "grep",
    "head",
    "mkdir",
    "paste",
    "sed",
    "tail",
    "tee",
    "timeout",
    "tr",
)


def run(out: Path, *steps: str) -> subprocess.CompletedProcess[str]:
    """With neither nvidia-smi nor compute-sanitizer in reach."""
    out.mkdir(exist_ok=True)
    tools = out / "bin"
    tools.mkdir()
    for tool in _TOOLS:
        path = subprocess.run(["which", tool], capture_output=True, text=True, check=True).stdout.strip()
        (tools / tool).symlink_to(path)
    command = [str(SCRIPT), "--out", str(out), *steps]
    return subprocess.run(
        command, env={**os.environ, "PATH": str(tools)}, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_step_that_fails_hides_none_behind_it(tmp_path: Path):
    done = run(tmp_path, "build", "memcheck", "native")
    assert done.returncode == 1
    outcomes = {step["step"]: step["outcome"] for step in json.loads((tmp_path / "steps.json").read_text())}
    assert outcomes["build"] == "failed with 1"
    assert outcomes["memcheck"] == "absent"
    assert outcomes["native"].startswith("failed")
    assert "compute-sanitizer is not installed: not run" in (tmp_path / "log").read_text()


def test_what_cannot_be_run_here_is_no_failure(tmp_path: Path):
    assert run(tmp_path, "memcheck", "racecheck").returncode == 0


def test_an_unknown_step_is_named(tmp_path: Path):
    done = run(tmp_path, "figures")
    assert done.returncode == 2
    assert "figures is none of build native pairs decoder services memcheck racecheck matrix" in done.stderr


def test_all_that_is_carried_is_pinned():
    carried = re.search(r"CARRIED=\(([^)]*)\)", SCRIPT.read_text())
    assert carried is not None
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    assert carried[1].split()
    assert set(carried[1].split()) <= pinned
