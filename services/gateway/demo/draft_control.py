"""DraftControl: takes a target's drafts away in the midst of answers, and gives them back."""

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
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.request import Part
from services.gateway.generation.validation import parse
from services.gateway.generation.writer import Json
from services.gateway.web.key import key_of

logger = logging.getLogger(__name__)
_SECONDS = 5.0


class DraftRequest(Part):
    """Whether drafts are to be there; null only asks whether they are."""

    present: bool | None = None


class DraftControl:
    """Asks the target's admin address, with the caller's key; made on the event loop."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, IN_THE_CLEAR)
        self._stub: Any = AdminServiceStub(self._channel)  # whose types are those of the blocking one
        self._taken: dict[str, Any] = {}  # and what was shown to the target when each of them was
        self._lock = asyncio.Lock()

    async def set(self, _: AsyncClient, http: Request, body: bytes) -> Json:
        """How many drafts are linked, on their way, and taken away; raises OutriderError and Problem."""
        request = parse(DraftRequest, body)
        try:
            async with self._lock:
                drafts = await self._set(request.present, bearer(key_of(http)))
        except grpc.RpcError as error:
            raise as_error(error) from None
        except ValueError:
            raise Problem(Kind.UNAUTHENTICATED, "the key is none that can be shown to a target") from None
        linked = sum(not draft.absence for draft in drafts)
        return {"linked": linked, "absent": len(drafts) - linked, "taken": len(self._taken)}

    async def close(self) -> None:
        """Give back what is taken, and close the connection."""
        for address, metadata in self._taken.items():
            try:
                await self._call("AddDraft", _add(address), metadata)
            except grpc.RpcError as error:
                logger.warning("a draft is not given back: %s", as_error(error))
        await self._channel.close()

    async def _set(self, present: bool | None, metadata: object) -> Any:  # noqa: ANN401 - it has no type
        drafts = (await self._call("GetStatistics", admin_pb2.GetStatisticsRequest(), metadata)).drafts
        # A draft that is here is not taken: it could not be, or whoever started the target again has named it.
        for draft in drafts:
            self._taken.pop(draft.address, None)
        if present is False:
            for draft in drafts:
                self._taken[draft.address] = metadata  # before it is: an answer that is lost has taken it too
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
