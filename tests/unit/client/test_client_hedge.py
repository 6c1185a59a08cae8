"""A stream that stands still is asked of the next server too, and continues with the same bytes."""

import asyncio

import pytest

import outrider
from outrider import Result
from tests.harness.servers.client_drivers import PROMPT, WHOLE
from tests.harness.servers.scripted_server import Fault, ScriptedServer, answer

SOON = 0.05  # seconds
WHOLE_OF_SEVEN = answer(list(PROMPT.encode()), 7)


def ask(*servers: ScriptedServer, hedge_after: float | None = SOON, timeout: float = 60, **options: object) -> Result:
    async def run() -> Result:
        addresses = [server.address for server in servers]
        async with outrider.AsyncClient(*addresses, hedge_after=hedge_after) as client:
            return await client.generate(PROMPT, timeout=timeout, **options)

    return asyncio.run(run())


@pytest.mark.parametrize("at", ["arrival", 0, 1, 9, len(WHOLE), "end"])
def test_another_server_goes_on_where_the_first_one_stands_still(at: int | str) -> None:
    with ScriptedServer(Fault(at, how="hang")) as slow, ScriptedServer() as fast:
        result = ask(slow, fast, seed=7)
        assert list(result.token_ids) == WHOLE_OF_SEVEN
        assert slow.servicer.ended.wait(60)
        first, second = slow.requests[0], fast.requests[0]
    received = at if isinstance(at, int) else len(WHOLE) if at == "end" else 0
    assert list(second.continue_from.token_ids) == WHOLE_OF_SEVEN[:received]
    assert (first.sampling.seed, second.sampling.seed) == (7, 7)


def test_both_servers_have_one_seed_if_the_caller_gives_none() -> None:
    with ScriptedServer(Fault("arrival", how="hang")) as slow, ScriptedServer() as fast:
        result = ask(slow, fast)
        assert slow.requests[0].sampling.seed == fast.requests[0].sampling.seed == result.started.seed


def test_each_server_helps_the_other() -> None:
    with ScriptedServer(Fault(3, how="hang")) as first, ScriptedServer(Fault(4, how="hang")) as second:
        result = ask(first, second, seed=7)
        assert list(result.token_ids) == WHOLE_OF_SEVEN
        received = [[len(each.continue_from.token_ids) for each in server.requests] for server in (first, second)]
    assert (received[0][:2], received[1][0]) == ([0, 7], 3)


def test_one_server_alone_is_waited_for() -> None:
    with ScriptedServer(Fault(3, how="hang")) as slow, pytest.raises(outrider.DeadlineExceeded):
        ask(slow, seed=7, timeout=1)


def test_a_server_of_another_fingerprint_does_not_go_on() -> None:
    async def run(*addresses: str) -> list[int]:
        token_ids: list[int] = []
        async with outrider.AsyncClient(*addresses, hedge_after=SOON) as client:
            stream = client.stream(PROMPT, seed=7)

            async def read() -> None:
                async for chunk in stream:
                    token_ids.extend(chunk.token_ids)

            reading = asyncio.create_task(read())
            while not other.servicer.ended.is_set():  # it was asked, and refuses
                await asyncio.sleep(0.01)
            assert not reading.done()
            reading.cancel()
            await asyncio.wait([reading])
        return token_ids

    with ScriptedServer(Fault(3, how="hang")) as slow, ScriptedServer(fingerprint="f2") as other:
        assert asyncio.run(run(slow.address, other.address)) == WHOLE_OF_SEVEN[:3]
        assert slow.servicer.ended.wait(60)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    async def make() -> None:
        outrider.AsyncClient("localhost:1", hedge_after=seconds)

    with pytest.raises(ValueError, match="hedge_after must be above 0"):
        asyncio.run(make())
