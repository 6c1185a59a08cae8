"""A gateway in front of the demo pair, which gets a chat template, and programs of others that are run against it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.checkpoints import CHAT_TEMPLATE, copy_of
from tests.harness.servers.server import RunningTarget
from tests.outsiders.tools import SCRIPTS, MissingToolError, are_missing, bin_of
from tests.rpc.harness.draft_link import drafted_target

Run = Callable[..., str]
_SECONDS = 240


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    """The demo target, which has a chat template here, with its draft."""
    if are_missing():
        pytest.skip("not installed: programs of others, which come with make doors-test")
    model = copy_of(DEMO_TARGET, tmp_path_factory.mktemp("chat"), "target", chat_template=CHAT_TEMPLATE)
    with drafted_target(model, DEMO_DRAFT, kv_blocks=512) as running:
        yield running


@pytest.fixture(scope="session")
def shared_gateway(target: RunningTarget) -> Iterator[RunningGateway]:
    """A gateway in front of it."""
    with RunningGateway(target.address) as running:
        yield running


@pytest.fixture
def gateway(shared_gateway: RunningGateway, target: RunningTarget) -> Iterator[RunningGateway]:
    """It; after the test the target holds nothing any more."""
    yield shared_gateway
    target.assert_all_free()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a program in an empty folder, which is its home too; it must end well, and what it has written comes back."""

    def run(command: list[str], **environment: str) -> str:
        own = {"HOME": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin", "OPENAI_API_KEY": "none"}
        offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        ended = subprocess.run(
            command,
            cwd=tmp_path,
            env={**own, **offline, **environment},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-8000:]
        return ended.stdout

    return run


@pytest.fixture
def use(run: Run, gateway: RunningGateway) -> Callable[[str, str], Any]:
    """Run the script that uses a tool, and read what it tells in its last line; skipped where the tool is missing."""

    def use(tool: str, said: str) -> Any:
        script = SCRIPTS / f"use_{tool}.py"
        told = run([str(found(tool) / "python"), str(script), f"{gateway.url}/v1", said])
        return json.loads(told.strip().splitlines()[-1])

    return use


def found(tool: str) -> Path:
    """The folder of a tool's commands; the test is skipped where it is missing."""
    try:
        return bin_of(tool)
    except MissingToolError as error:
        pytest.skip(f"not installed: {error}")
