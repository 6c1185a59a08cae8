"""DraftAdmin: the admin service of a draft."""

from collections.abc import Callable
from typing import NoReturn

from google.protobuf.message import Message

from outrider.v1 import admin_pb2
from services.draft.engine import DraftEngine
from services.draft.servicer import DraftServicer
from services.service.admin.admin_servicer import AdminServicer, Context
from services.service.errors import UnimplementedError
from services.service.life.availability import Availability
from services.service.life.reload import Reload
from services.telemetry.telemetry import Telemetry


class DraftAdmin(AdminServicer[DraftEngine]):
    """Counts sequences by their links; a draft has no requests, limits or drafts of its own."""

    def __init__(
        self,
        availability: Availability,
        reload: Reload,
        telemetry: Telemetry,
        find_engine: Callable[[], DraftEngine | None],
        servicer: DraftServicer,
    ) -> None:
        super().__init__(availability, reload, telemetry, find_engine)
        self._servicer = servicer

    async def _refuse(self, request: Message, context: Context) -> NoReturn:  # noqa: ARG002 - gRPC gives them
        raise UnimplementedError(
            "a draft has no requests, limits, drafts or adapters to load of its own; ask its target"
        )

    ListRequests = CancelRequest = SetLimits = AddDraft = RemoveDraft = LoadLora = UnloadLora = _refuse

    def _count_left(self, engine: DraftEngine) -> int:  # noqa: ARG002 - the links know
        return sum(len(link.sequences) for link in self._servicer.links)

    async def _describe(self, engine: DraftEngine, statistics: admin_pb2.GetStatisticsResponse) -> None:
        statistics.model, blocks = self._servicer.name, engine.blocks
        statistics.cache.CopyFrom(
            admin_pb2.CacheStatistics(
                total_blocks=blocks.num_blocks,
                free_blocks=blocks.num_free,
                findable_blocks=blocks.num_findable,
                block_size=blocks.block_size,
            )
        )
        statistics.running = self._count_left(engine)
