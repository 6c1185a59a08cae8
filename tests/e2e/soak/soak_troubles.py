"""SoakTroubles: disturbances of the services under load: kills, drains, cancellations, changes of drafts."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

import grpc

from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from tests.e2e.harness.draft_rig import DraftedTarget, Service
from tests.e2e.soak.soak_tally import Tally

if TYPE_CHECKING:
    from outrider.v1.admin_pb2_grpc import AdminServiceAsyncStub

_LIFE_SECONDS = (1.0, 6.0)  # of a draft, from its start to its end
_DOWN_SECONDS = (0.0, 0.5)
_SHARE_LINKED = 0.5  # of the lives, counted from when the target is linked: a slow draft is killed before that
_MOST_MORE_SECONDS = 300.0  # with kills, where something has not happened yet that must
_BETWEEN_SECONDS = (1.0, 4.0)  # two deeds of the administrator
_DRAINED_SECONDS = (0.1, 1.0)
_TIMEOUT_SECONDS = 120.0


class SoakTroubles:
    """Kills the draft over and over, and disturbs both services by admin calls."""

    def __init__(
        self, target: DraftedTarget, draft: Service, tally: Tally, rng: random.Random, *, admin: str, draft_admin: str
    ) -> None:
        self._target, self._draft, self._tally, self._rng = target, draft, tally, rng
        self._admin, self._draft_admin = admin, draft_admin

    async def kill(self, until: float) -> None:
        """Kill and start the draft until that moment, or until all has been seen that must be; it is left linked."""
        while time.monotonic() < until or self._is_to_go_on(until):
            left = max(until - time.monotonic(), _LIFE_SECONDS[0])
            await asyncio.sleep(min(left, self._rng.uniform(*_LIFE_SECONDS)))
            self._draft.kill()
            self._tally.deeds["kills of the draft"] += 1
            await asyncio.sleep(self._rng.uniform(*_DOWN_SECONDS))
            if self._rng.random() < _SHARE_LINKED or time.monotonic() >= until:  # it is watched once it has loaded
                await self._target.start_draft(self._draft)
            else:
                self._draft.start()

    def _is_to_go_on(self, until: float) -> bool:
        is_soon = time.monotonic() - until < _MOST_MORE_SECONDS
        return is_soon and bool(self._tally.missing_evidence())

    async def administer(self, is_over: Callable[[], bool]) -> None:
        """Do one thing after the other; a draft that is just dead hears nothing of it."""
        async with (
            grpc.aio.insecure_channel(self._admin) as channel,
            grpc.aio.insecure_channel(self._draft_admin) as draft_channel,
        ):
            target, draft = AdminServiceStub(channel), AdminServiceStub(draft_channel)
            deeds: list[Callable[[], Awaitable[None]]] = [
                lambda: self._drain(target, "target"),
                lambda: self._drain(draft, "draft"),
                lambda: self._cancel(target),
                lambda: self._flush(target, "target"),
                lambda: self._flush(draft, "draft"),
                lambda: self._exchange(target),
            ]
            while not is_over():
                await self._rng.choice(deeds)()
                await asyncio.sleep(self._rng.uniform(*_BETWEEN_SECONDS))

    async def _drain(self, stub: "AdminServiceAsyncStub", name: str) -> None:
        with _tolerating(name):
            await stub.Drain(admin_pb2.DrainRequest(), timeout=_TIMEOUT_SECONDS)
            await asyncio.sleep(self._rng.uniform(*_DRAINED_SECONDS))
            await stub.Undrain(admin_pb2.UndrainRequest(), timeout=_TIMEOUT_SECONDS)
            self._tally.deeds[f"drains of the {name}"] += 1

    async def _cancel(self, stub: "AdminServiceAsyncStub") -> None:
        listed = await stub.ListRequests(admin_pb2.ListRequestsRequest(), timeout=_TIMEOUT_SECONDS)
        if listed.requests:
            request = admin_pb2.CancelRequestRequest(request_id=self._rng.choice(listed.requests).request_id)
            answer = await stub.CancelRequest(request, timeout=_TIMEOUT_SECONDS)
            self._tally.deeds["cancellations by the administrator"] += answer.cancelled

    async def _flush(self, stub: "AdminServiceAsyncStub", name: str) -> None:
        with _tolerating(name):
            await stub.FlushPrefixCache(admin_pb2.FlushPrefixCacheRequest(), timeout=_TIMEOUT_SECONDS)
            self._tally.deeds[f"flushes of the {name}'s prefix cache"] += 1

    async def _exchange(self, stub: "AdminServiceAsyncStub") -> None:
        """Take the target's draft away for a while."""
        address = self._target.draft_address
        await stub.RemoveDraft(admin_pb2.RemoveDraftRequest(address=address), timeout=_TIMEOUT_SECONDS)
        await asyncio.sleep(self._rng.uniform(*_DRAINED_SECONDS))
        await stub.AddDraft(admin_pb2.AddDraftRequest(address=address), timeout=_TIMEOUT_SECONDS)
        self._tally.deeds["changes of the target's drafts"] += 1


def _tolerating(name: str) -> AbstractContextManager[None]:
    """A draft may be dead just then; a target may not."""
    return suppress(grpc.RpcError) if name == "draft" else nullcontext()
