"""Parts of the tests: a target on a small random model, which predicts by lookup."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.few_processes import few_processes  # noqa: F401
from tests.harness.servers.server import RunningTarget, target_server


@pytest.fixture(scope="session")
def model() -> Path:
    """The folder of a small random Llama, which has a chat template."""
    return random_checkpoint(Kind.LLAMA)


@pytest.fixture(scope="session")
def shared_target(model: Path) -> Iterator[RunningTarget]:
    """One server for all tests that leave it as they found it."""
    with target_server(model, stream_capacity=4, lookup=True) as running:
        yield running


@pytest.fixture
def target(shared_target: RunningTarget) -> Iterator[RunningTarget]:
    """The shared server; after the test no sequence and no KV block is left in it."""
    yield shared_target
    shared_target.assert_all_free()


@pytest.fixture(scope="session")
def loras(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"a": write_adapter(tmp_path_factory.mktemp("loras") / "a", model, seed=1)}
