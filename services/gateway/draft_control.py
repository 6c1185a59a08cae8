"""DraftControl: POST /demo/draft disconnects a target's drafts during answers, and connects them again."""

import asyncio
import logging
from typing import Any

import grpc
from starlette.requests import Request

from outrider import AsyncClient
from outrider.errors import as_error
from outrider.servers.channel import IN_THE_CLEAR, bearer
from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from services.gateway.generation.part import Part
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.validation import parse
from services.gateway.generation.writer import Json
from services.gateway.web.key import key_of

logger = logging.getLogger(__name__)
_SECONDS = 5.0


class DraftRequest(Part):
    """Whether to connect drafts; null changes nothing and only reports."""

    present: bool | None = None


class DraftControl:
    """Calls the target's admin address with the caller's key; must be made on the event loop."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, IN_THE_CLEAR)
        self._stub: Any = AdminServiceStub(self._channel)  # its types are those of the blocking stub
        self._taken: dict[str, Any] = {}  # disconnected drafts, with the metadata of the call that did it
        self._lock = asyncio.Lock()

    async def set(self, _: AsyncClient, http: Request, body: bytes) -> Json:
        """Connect or disconnect the drafts; returns how many are linked, absent and disconnected.

        Raises OutriderError and Problem.
        """
        request = parse(DraftRequest, body)
        try:
            async with self._lock:
                drafts = await self._set(request.present, bearer(key_of(http)))
        except grpc.RpcError as error:
            raise as_error(error) from None
        except ValueError:
            raise Problem(Kind.UNAUTHENTICATED, "the key cannot be sent to a target") from None
        linked = sum(not draft.absence for draft in drafts)
        return {"linked": linked, "absent": len(drafts) - linked, "taken": len(self._taken)}

    async def close(self) -> None:
        """Connect the disconnected drafts again, and close the connection."""
        for address, metadata in self._taken.items():
            try:
                await self._call("AddDraft", _add(address), metadata)
            except grpc.RpcError as error:
                logger.warning("a draft could not be connected again: %s", as_error(error))
        await self._channel.close()

    async def _set(self, present: bool | None, metadata: object) -> Any:  # noqa: ANN401 - it has no type
        drafts = (await self._call("GetStatistics", admin_pb2.GetStatisticsRequest(), metadata)).drafts
        # A draft that the target lists is not disconnected: that failed, or the target was restarted with it.
        for draft in drafts:
            self._taken.pop(draft.address, None)
        if present is False:
            for draft in drafts:
                self._taken[draft.address] = metadata  # before the call, which may succeed although its answer is lost
                drafts = (await self._call("RemoveDraft", _remove(draft.address), metadata)).drafts
        elif present:
            for address in sorted(self._taken):
                drafts = (await self._call("AddDraft", _add(address), metadata)).drafts
                self._taken.pop(address)
        return drafts

    async def _call(self, name: str, request: object, metadata: object) -> Any:  # noqa: ANN401 - one of several messages
        return await getattr(self._stub, name)(request, metadata=metadata, timeout=_SECONDS)


def _remove(address: str) -> admin_pb2.RemoveDraftRequest:
    return admin_pb2.RemoveDraftRequest(address=address)


def _add(address: str) -> admin_pb2.AddDraftRequest:
    return admin_pb2.AddDraftRequest(address=address)
