"""FuzzedService: a service of the demo pair that reports its state on request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from grpc import aio

from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.harness.network.free_port import free_port

if TYPE_CHECKING:
    from outrider.v1.admin_pb2_grpc import AdminServiceAsyncStub


class FuzzedService(Service):
    """Has few KV blocks, so that they run out."""

    def __init__(self, name: str, model: Path, folder: Path, *options: str) -> None:
        self._admin = f"127.0.0.1:{free_port()}"
        super().__init__(name, model, folder, "--kv-blocks", "256", "--admin-listen", self._admin, *options)

    async def num_sequences(self) -> int:
        """Those that it computes, and those that wait."""
        async with aio.insecure_channel(self._admin) as channel:
            stub: AdminServiceAsyncStub = AdminServiceStub(channel)
            told = await stub.GetStatistics(admin_pb2.GetStatisticsRequest())
        return told.running + told.waiting


@asynccontextmanager
async def fuzzed_services(folder: Path) -> AsyncIterator[tuple[FuzzedService, FuzzedService]]:
    """A target and its draft, which end with this."""
    draft = FuzzedService("draft", DEMO_DRAFT, folder)
    target = FuzzedService("target", DEMO_TARGET, folder, "--draft", draft.address)
    try:
        for service in (draft, target):
            service.start()
        await draft.logs("drafting with")
        await target.logs("serving target")
        yield target, draft
    finally:
        for service in (draft, target):
            service.kill()
