"""LoadingHealth: what checks and watchers see, and that none of them delays another."""

import asyncio
from typing import Any

from grpc_health.v1 import health_pb2

from services.engine.decoder.loading_progress import LoadingProgress
from services.service.loading_health import DETAIL, LoadingHealth

SERVING, NOT_SERVING, UNKNOWN = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
    health_pb2.HealthCheckResponse.SERVICE_UNKNOWN,
)


class Context:
    """The context of a call whose client reads as long as the window is open."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.trailers: Any = ()
        self.window = asyncio.Event()

    async def write(self, response: health_pb2.HealthCheckResponse) -> None:
        await self.window.wait()
        self.written.append(response.status)

    def set_trailing_metadata(self, metadata: Any) -> None:
        self.trailers = metadata


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_watcher_that_reads_nothing_delays_nobody():
    health = LoadingHealth(LoadingProgress(), ["", "a"])
    idle, busy = Context(), Context()
    busy.window.set()
    asked = health_pb2.HealthCheckRequest(service="a")
    watches = [asyncio.ensure_future(health.Watch(asked, context)) for context in (idle, busy)]
    await settle()
    for is_serving in (True, False):
        health.set(is_serving=is_serving)
        await settle()
        assert (await health.Check(asked, Context())).status == (SERVING if is_serving else NOT_SERVING)
    assert (idle.written, busy.written) == ([], [NOT_SERVING, SERVING, NOT_SERVING])
    health.set(is_serving=True)
    idle.window.set()
    await settle()
    assert idle.written == [NOT_SERVING, SERVING], "it hears of the latest status only"
    for watch in watches:
        watch.cancel()


async def test_an_unknown_service_is_watched_as_such():
    health, context = LoadingHealth(LoadingProgress(), [""]), Context()
    context.window.set()
    watch = asyncio.ensure_future(health.Watch(health_pb2.HealthCheckRequest(service="b"), context))
    health.set(is_serving=True)
    await settle()
    assert context.written == [UNKNOWN]
    watch.cancel()


async def test_progress_is_reported_until_requests_were_served():
    progress, context = LoadingProgress(), Context()
    health = LoadingHealth(progress, [""])
    progress.advance(0.5)
    await health.Check(health_pb2.HealthCheckRequest(), context)
    assert context.trailers == ((DETAIL, "50% of the weights are loaded"),)
    for is_serving in (True, False):
        health.set(is_serving=is_serving)
        late = Context()
        answer = await health.List(health_pb2.HealthListRequest(), late)
        assert [each.status for each in answer.statuses.values()] == [SERVING if is_serving else NOT_SERVING]
        assert late.trailers == ()
