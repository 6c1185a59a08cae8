"""`make wheel`: the wheels install into an empty environment, and `outrider up` serves there."""

import os
import re
import select
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import Client
from tests.e2e.harness.models import ROOT
from tests.harness.servers.loop_thread import PATIENCE_SECONDS

WHEELS = sorted((ROOT / "dist").glob("outrider*.whl"))

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not WHEELS, reason="NO WHEEL IS BUILT (make wheel BUILDS IT): NONE IS INSTALLED"),
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheels, and what they need."""
    folder = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", *map(str, WHEELS)]
    subprocess.run(pip, check=True, env=environment() | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")})
    return folder / "bin"


def environment() -> dict[str, str]:
    """The environment without what leads Python to this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@pytest.fixture
def up(installed: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo pair, started by the installed command."""
    command = [str(installed / "outrider"), "up", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()


def test_the_installed_command_serves(up: subprocess.Popen[str], installed: Path) -> None:
    assert up.stdout is not None
    assert select.select([up.stdout], [], [], PATIENCE_SECONDS)[0], "it does not serve yet"
    found = re.match(r"outrider is up on (\S+);", up.stdout.readline())
    assert found is not None
    with Client(found[1]) as client:
        answer = client.generate("def main(argv):", max_tokens=24, seed=5, speculation="always")
    assert answer.usage.completion_tokens
    assert answer.speculation.predicted
    (module,) = installed.parent.glob("lib/python*/site-packages/services/engine/decoder/native/_native*.so")
    assert module.read_bytes()[:4] == b"\x7fELF"


def test_a_wheel_has_no_tests_and_all_licences() -> None:
    (service,) = (wheel for wheel in WHEELS if not wheel.stem.endswith("-any"))
    names = zipfile.ZipFile(service).namelist()
    assert not [name for name in names if "testing" in name or name.startswith(("tests/", "models/", "native/"))]
    licences = {Path(name).parent.name for name in names if name.endswith("LICENSE") and "/licenses/" in name}
    assert {"highlight", "marked"} < licences
