"""A draft that floods costs the target next to nothing: the same bytes, prompt answers, few links, few lines of log."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks.drafts.scripted_draft import Behaviour, ScriptedDraft, replying
from services.target.speculation.link.draft_reader import ENDED
from tests.e2e.harness import garbage_draft
from tests.e2e.harness.draft_rig import GREEDY, SAMPLED, DraftedTarget, Service, until
from tests.e2e.harness.garbage_draft import flood_of, named
from tests.harness.further import further
from tests.harness.processes.cpu_time import UnhinderedClock

_SECONDS = 1.0
_MOST_LINKS = 8  # with pauses that grow
_SHORTEST_LATER_PAUSE = 15.0  # after those, seconds
_SECONDS_OF_A_LINE = 60.0
_NUM_TOKENS = 100  # for which the target computes longer than for any answer of its health
_POLL_SECONDS = 0.05
_FEW_BYTES = 64 << 20
_LONGEST_LINE = 600  # characters


class Probe:
    """Asks for a target's health again and again; `slowest` are the most seconds of any answer that the target computed
    and that passed, but for those in which it or we waited for a core.
    """

    def __init__(self, target: Service) -> None:
        self._target = target
        self._clock = UnhinderedClock(target.pid, os.getpid())
        self.slowest = 0.0

    @asynccontextmanager
    async def probing(self) -> AsyncIterator[None]:
        asking = asyncio.create_task(self._ask())
        try:
            yield
        finally:
            await asyncio.sleep(0.1)
            asking.cancel()
            await asyncio.wait([asking])

    async def _ask(self) -> None:
        async with aio.insecure_channel(self._target.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            while True:
                computed, began = self._target.cpu_seconds, self._clock()
                await stub.Check(health_pb2.HealthCheckRequest())
                seconds = min(self._target.cpu_seconds - computed, self._clock() - began)
                self.slowest = max(self.slowest, seconds)
                await asyncio.sleep(_POLL_SECONDS)


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        further(flood_of(garbage_draft.MILLION_FURTHER), "RESOURCE_EXHAUSTED", id="a million further messages"),
        further(flood_of(garbage_draft.MILLION_ALTERNATES), "RESOURCE_EXHAUSTED", id="a million alternates"),
        pytest.param(flood_of(garbage_draft.MILLION_IDS), "RESOURCE_EXHAUSTED", id="two million ids"),
        further(
            garbage_draft.flood_of_long_runs,
            "it sent 8192 token ids in one run; at most 64 are allowed",
            id="long runs",
        ),
        pytest.param(named("model\n" * 200_000), "RESOURCE_EXHAUSTED", id="a name of a megabyte"),
        further(named("model\n" * 3000), "it sent bytes that are no message", id="a name of many lines"),
        pytest.param(flood_of(garbage_draft.NO_MESSAGE), "it sent bytes that are no message", id="unknown bytes"),
        further(flood_of(garbage_draft.STALE_RUN), "useless", id="stale runs"),
        further(flood_of(garbage_draft.UNKNOWN_SEQUENCE), "useless", id="unknown sequences"),
        further(flood_of(garbage_draft.OUT_OF_RANGE), "useless", id="ids out of range"),
        further(flood_of(garbage_draft.SMALL_ALTERNATES), "useless", id="alternates"),
        further(garbage_draft.flood_of_epochs, "useless", id="epochs"),
        further(replying(garbage_draft.talkative), "INTERNAL garbage", id="ever other words"),
    ],
)
async def test_a_flood_costs_next_to_nothing(fresh_target: DraftedTarget, behaviour: Behaviour, told: str):
    target, probe = fresh_target, Probe(fresh_target.service)
    await target.generate({**GREEDY, "max_tokens": _NUM_TOKENS})  # its answer without predictions is known
    computed = target.service.cpu_seconds
    await target.generate({**GREEDY, "max_tokens": _NUM_TOKENS})
    usual = target.service.cpu_seconds - computed
    since, before = target.service.log_size, target.service.resident_bytes
    words = (told, ENDED) if told == "RESOURCE_EXHAUSTED" else (told,)  # gRPC loses that under a write of the target's
    async with ScriptedDraft(target.draft_address, behaviour) as draft, probe.probing():
        await until(lambda: draft.num_links > 0)
        began = time.monotonic()
        while time.monotonic() < began + _SECONDS or not _fitting(_complaints(target, since), words):
            for options in (GREEDY, SAMPLED):
                assert (await target.generate({**options, "max_tokens": _NUM_TOKENS})).speculation.accepted <= 2
    log, seconds = target.service.log(since), time.monotonic() - began
    print(f"{told}: health {probe.slowest:.3f} of {usual:.3f} s, {draft.num_links} links, {draft.num_sent} sent")
    assert probe.slowest < usual
    assert 0 < draft.num_links <= _MOST_LINKS + seconds / _SHORTEST_LATER_PAUSE
    assert target.service.resident_bytes < before + _FEW_BYTES
    complaints = _complaints(target, since)
    fitting = _fitting(complaints, words)
    assert 1 <= len(fitting) <= 1 + seconds / _SECONDS_OF_A_LINE, f"not once a minute: {complaints}"
    assert fitting == complaints[-len(fitting) :]
    assert "Traceback" not in log
    assert max(map(len, log.splitlines())) < _LONGEST_LINE


def _complaints(target: DraftedTarget, since: int) -> list[str]:
    told = f"{target.draft_address} {target.UNLINKED}"
    return [line for line in target.service.log(since).splitlines() if told in line]


def _fitting(complaints: list[str], words: tuple[str, ...]) -> list[str]:
    return [complaint for complaint in complaints if any(word in complaint for word in words)]
