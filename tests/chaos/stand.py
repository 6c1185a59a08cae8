"""ChaosStand: two targets, two drafts that both of them share, and what stands between them and their callers."""

import asyncio
import itertools
import math
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import grpc

from outrider import AsyncClient
from tests.chaos.stepped_clock import SteppedClock
from tests.deploy.envoy import Envoy, binary
from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.link_proxy import LinkProxy
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.harness.network.free_port import free_port
from tests.harness.servers.server import RunningTarget, target_server

NUM_PLACES = 16
FRONTS = 2  # processes of each target, beside the service and the engine
_NUM_BLOCKS = 512
_BLOCKS = ("--kv-blocks", str(_NUM_BLOCKS))
_TARGET = (*_BLOCKS, "--max-sequences", str(NUM_PLACES), "--max-streams-per-caller", "64")
# Longer than both targets take to come back, also for a client that is made while neither is there.
_PATIENCE: dict[str, Any] = {"max_retries": 60, "max_backoff": 1.0, "connect_timeout": math.inf}
_DELAY = {"fixed_delay": "0.05s", "percentage": {"numerator": 20}}
_ABORT = {"grpc_status": grpc.StatusCode.UNAVAILABLE.value[0], "percentage": {"numerator": 5}}
_FAULTS = {
    "name": "faults",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
        "delay": _DELAY,
        "abort": _ABORT,
    },
}


class ChaosStand:
    """Callers come through Envoy, which delays some calls and aborts others, or where it is not installed by all
    addresses. `plain` is a third target, in this process, which nothing happens to.
    """

    def __init__(self, folder: Path) -> None:
        self.clocks: dict[Service, SteppedClock] = {}
        self.drafts = [self._service(folder, "draft", number, *_BLOCKS) for number in range(2)]
        links = [*itertools.chain.from_iterable(("--draft", draft.address) for draft in self.drafts)]
        self.targets = [self._service(folder, "target", number, *links, *_TARGET) for number in range(2)]
        self.proxies = [LinkProxy(f"127.0.0.1:{free_port()}", target.address) for target in self.targets]
        self.envoy: Envoy | None = None
        if binary() is not None:
            self.envoy = Envoy(folder, [proxy.address for proxy in self.proxies], filters=[_FAULTS])
        self.plain: RunningTarget
        self._stack = AsyncExitStack()

    @property
    def services(self) -> list[Service]:
        """All that something may happen to."""
        return [*self.targets, *self.drafts]

    def connect(self) -> AsyncClient:
        """A client as its callers have one."""
        if self.envoy is None:
            return AsyncClient(*(proxy.address for proxy in self.proxies), **_PATIENCE)
        return AsyncClient(self.envoy.address, credentials=self.envoy.credentials, **_PATIENCE)

    async def __aenter__(self) -> Self:
        self.plain = self._stack.enter_context(target_server(DEMO_TARGET, kv_blocks=_NUM_BLOCKS))
        for service in self.services:
            self._stack.callback(service.kill)
            service.start()
        await asyncio.gather(*(target.logs("serving target") for target in self.targets))
        for proxy in self.proxies:
            await self._stack.enter_async_context(proxy)
        if self.envoy is not None:
            self._stack.callback(self.envoy.kill)
            await self.envoy.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def _service(self, folder: Path, name: str, number: int, *options: str) -> Service:
        logs = folder / f"{name}-{number}"
        logs.mkdir()
        clock, model = SteppedClock(logs), DEMO_TARGET if name == "target" else DEMO_DRAFT
        service = Service(name, model, logs, *options, wrapper=clock.wrapper, fronts=FRONTS if name == "target" else 0)
        self.clocks[service] = clock
        return service
