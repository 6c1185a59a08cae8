"""tests/gpu.sh, as far as it can be tested without a GPU: it runs, and no failed step hides another."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.gpu import figures
from tests.gpu.wheels import MAX_BYTES, OWN, carried, divide, pins
from tests.native.harness.devices import needs_emulation

pytestmark = pytest.mark.process

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
    """With neither nvidia-smi nor compute-sanitizer in reach, nor any Python."""
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


def outcomes(out: Path) -> dict[str, str]:
    return {step["step"]: step["outcome"] for step in json.loads((out / "steps.json").read_text())}


def dry_run(out: Path, *steps: str) -> dict[str, str]:
    """All that can be of some steps, with this Python's packages."""
    command = [str(SCRIPT), "--dry-run", "--out", str(out), *steps]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return outcomes(out)


def test_a_failed_step_hides_no_later_one(tmp_path: Path):
    done = run(tmp_path, "build", "memcheck", "native")
    assert done.returncode == 1
    found = outcomes(tmp_path)
    assert found["build"] == "failed with 1"
    assert found["memcheck"] == "absent"
    assert found["native"].startswith("failed")
    assert "compute-sanitizer is not installed: not run" in (tmp_path / "log").read_text()


def test_a_step_that_cannot_run_here_is_no_failure(tmp_path: Path):
    assert run(tmp_path, "memcheck", "racecheck", "profile").returncode == 0


def test_an_unknown_step_is_named(tmp_path: Path):
    done = run(tmp_path, "prices")
    assert done.returncode == 2
    assert "prices is none of device models build probe native kernels states profile memcheck" in done.stderr


def test_without_steps_the_script_lists_them(tmp_path: Path):
    done = run(tmp_path)
    assert done.returncode == 2
    assert "say device or models, or steps" in done.stderr


@pytest.mark.parametrize("call", ["DEVICE", "MODEL"])
def test_the_steps_of_a_call_fit_into_its_time(call):
    text = SCRIPT.read_text()
    total = re.search(r"TOTAL_SECONDS:-(\d+)", text)
    limits = re.search(rf"{call}_LIMITS=\(([^)]*)\)", text)
    steps = re.search(rf"{call}_STEPS=\(([^)]*)\)", text)
    assert total is not None
    assert limits is not None
    assert steps is not None
    seconds = {name: int(each) for name, each in re.findall(r"\[(\w+)\]=(\d+)", limits[1])}
    assert [*seconds] == steps[1].split()
    assert sum(seconds.values()) <= int(total[1])


def test_all_carried_packages_are_pinned_and_none_is_missing():
    names = carried()
    assert {pin.partition("==")[0] for pin in pins(names)} == names
    text = (ROOT / "pyproject.toml").read_text()
    needed = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert needed is not None
    ours = {Requirement(each).name.lower().replace("_", "-") for each in re.findall(r'"([^"]+)"', needed[1])}
    assert len(ours) > 10
    assert ours - OWN <= names


def test_files_and_wheels_fit_into_one_call():
    """A machine that is lent takes 64 MiB: the files of the project, and a half of the wheels."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    files = [ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name]
    assert sum(path.stat().st_size for path in files if path.exists()) + MAX_BYTES < 64 * 2**20


def test_wheels_are_divided_into_halves(tmp_path: Path):
    for name, size in (("a", 50), ("b", 30), ("c", 25), ("d", 10)):
        (tmp_path / f"{name}.whl").write_bytes(bytes(size))
    assert divide(tmp_path) == [60, 55]
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.whl")) == [
        *("1/a.whl", "1/d.whl", "2/b.whl", "2/c.whl")
    ]


def test_each_figure_stands_beside_its_last_value_and_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    attention = {"kernel": "attention", "shape": "8b", "format": "bf16", "rows": 4, "context": 1024, "seconds": 1.5e-5}
    (tmp_path / "kernels.json").write_text(json.dumps({"kernels": [attention]}))
    passes = {"gpu": "one", "matrix_rate": 1e14, "8b bf16": {"bandwidth_fraction": 0.75, "v(8)": 1.25}}
    (tmp_path / "passes.json").write_text(json.dumps(passes))
    figures.print_table(tmp_path)
    rows = [re.split(r" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["figure", "before", "predicted", "now", "must"]
    now = {row[0]: row[3] for row in rows[1:]}
    expected = {"8b bf16, one row, share": "0.75", "8b bf16, v(8)": "1.25", "attention, 1024, 4 rows, us": "15"}
    assert now.items() >= expected.items()
    assert {value for name, value in now.items() if name not in expected} == {"-"}


@needs_emulation
@pytest.mark.exhaustive
def test_steps_without_a_model_pass_in_a_dry_run(tmp_path: Path):
    found = dry_run(tmp_path, "build", "kernels", "states", "memcheck")
    assert found == dict.fromkeys(("build", "kernels", "states", "memcheck"), "passed")
    record = json.loads((tmp_path / "kernels.json").read_text())
    assert record["device"] == "cuda-emulated"
    kernels = {(each["kernel"].split()[0], each["format"]) for each in record["kernels"]}
    assert {("product", each) for each in ("bf16", "int8", "int4", "fp8")} < kernels
    assert all(each["seconds"] > 0 for each in record["kernels"])


@needs_emulation
@pytest.mark.exhaustive
@pytest.mark.timeout(1000)
def test_all_steps_pass_in_a_dry_run(tmp_path: Path):
    """The probe is compiled where there is an nvcc; services, matrix and passes run on a CPU."""
    found = dry_run(tmp_path, "device", "models", "cpu")
    assert {outcome for step, outcome in found.items() if step not in ("probe", "profile")} == {"passed"}
    assert {found["probe"], found["profile"]} <= {"passed", "absent"}
    for name in ("kernels", "passes", "services", "roofline"):
        assert json.loads((tmp_path / f"{name}.json").read_text()), name
