"""A target whose engine has a process of its own, with an admin address and an adapter."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from services.service.server_config import ServerConfig
from tests.harness.models.checkpoints import copy_of
from tests.harness.models.infill_checkpoints import add_marks
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.administered import admin_of
from tests.rpc.harness.field_examples import LORA


@dataclass(frozen=True)
class Split:
    """A target, and what to administer it with."""

    target: RunningTarget
    admin: AdminServiceStub

    @property
    def statistics(self) -> admin_pb2.GetStatisticsResponse:
        """What it reports now."""
        return self.admin.GetStatistics(admin_pb2.GetStatisticsRequest(), timeout=60)

    def metric(self, name: str) -> float:
        """The value of a metric, by its name and labels as they are written on the page."""
        page = self.admin.GetMetrics(admin_pb2.GetMetricsRequest(), timeout=60).page
        (line,) = [line for line in page.splitlines() if line.startswith(f"{name} ")]
        return float(line.rpartition(" ")[2])

    def wait_until_free(self) -> None:
        """Wait until no sequence is left and no KV block is owned."""
        wait_until(lambda: self.statistics.cache.free_blocks == self.statistics.cache.total_blocks)
        assert (self.statistics.running, self.statistics.waiting) == (0, 0)


@pytest.fixture(scope="package")
def marked(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model with marks for infill, and an adapter of it."""
    folder = copy_of(model, tmp_path_factory.mktemp("marked"))
    add_marks(folder)
    return folder, write_adapter(tmp_path_factory.mktemp("loras") / "a", folder, seed=1)


@pytest.fixture(scope="package")
def shared_split(marked: tuple[Path, Path]) -> Iterator[Split]:
    """One target for all tests that leave it as they found it."""
    folder, adapter = marked
    config = ServerConfig(listen="127.0.0.1:0", admin_listen="127.0.0.1:0", drain_seconds=0)
    options: dict[str, Any] = {"lookup": True, "parsers": {"reasoning_parser": "think"}, "loras": {LORA: adapter}}
    with (
        target_server(folder, server=config, own_process=True, lora_dir=adapter.parent, **options) as target,
        admin_of(target.server.admin.address) as admin,
    ):
        yield Split(target, admin)


@pytest.fixture
def split(shared_split: Split) -> Iterator[Split]:
    """The shared target; after the test no sequence and no KV block is left in it."""
    yield shared_split
    shared_split.wait_until_free()
