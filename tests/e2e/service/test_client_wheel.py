"""The client's wheel in an otherwise empty environment: it brings its requirements, and it streams."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import requires, version
from pathlib import Path
from zipfile import ZipFile

import pytest

import outrider
from outrider import Client
from tests.e2e.harness.models import DEMO_TARGET, ROOT
from tests.harness.servers.server import RunningTarget, target_server

PROMPT = "def read(self, path):\n"
OPTIONS = {"max_tokens": 48, "temperature": 0.7, "seed": 7}
STREAM = """
import json, sys
from importlib.metadata import distributions
from outrider import Client

address, prompt, options = sys.argv[1:]
with Client(address) as client, client.stream(prompt, **json.loads(options)) as stream:
    texts = [chunk.text for chunk in stream]
print(json.dumps({
    "text": "".join(texts),
    "token_ids": stream.result.token_ids,
    "installed": [each.name.replace("_", "-") for each in distributions()],
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT / "clients" / "python"))
    (only,) = folder.iterdir()
    return only


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment into which the wheel alone was installed, with what it asks for."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    interpreter = folder / "bin" / "python"
    pip("--python", str(interpreter), "install", "--no-compile", str(wheel))
    return interpreter


@pytest.fixture(scope="module")
def target() -> Iterator[RunningTarget]:
    with target_server(DEMO_TARGET, kv_blocks=256) as running:
        yield running


def pip(*arguments: str) -> None:
    """Run the pip of the tests' own environment, with the versions that are pinned."""
    environment = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], env=environment, check=True)


def test_the_wheel_holds_only_the_typed_client(wheel: Path) -> None:
    assert wheel.name == f"outrider_client-{outrider.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    information = f"outrider_client-{outrider.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"outrider", information}
    assert {"outrider/py.typed", "outrider/v1/generation_pb2.pyi", f"{information}/licenses/LICENSE"} <= names


def test_the_wheel_installs_grpcio_and_protobuf_and_streams(
    python: Path, target: RunningTarget, tmp_path: Path
) -> None:
    command = [str(python), "-I", "-c", STREAM, target.address, PROMPT, json.dumps(OPTIONS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    with Client(target.address) as client:
        expected = client.generate(PROMPT, **OPTIONS)
    assert said["text"] == expected.text != ""
    assert said["token_ids"] == [*expected.token_ids]
    # typing-extensions comes with grpcio.
    assert sorted(said["installed"]) == ["grpcio", "outrider-client", "protobuf", "typing-extensions"]


def test_the_server_asks_for_the_client_of_its_own_version() -> None:
    assert version("outrider") == version("outrider-client") == outrider.__version__
    assert f"outrider-client=={outrider.__version__}" in (requires("outrider") or [])
