"""A client that has never reached a server soon says so; one that has waits for it to come back."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

import outrider
from outrider.servers import retry
from tests.harness.network.free_port import free_port
from tests.harness.servers.client_drivers import PROMPT
from tests.harness.servers.scripted_server import ScriptedServer

Calls = outrider.Client | outrider.AsyncClient
PATIENT = {"max_retries": 10_000, "max_backoff": 0.05}


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Callable[..., Calls]:
    return outrider.Client if request.param == "sync" else outrider.AsyncClient


async def _value(value: object) -> object:
    return await value if isinstance(value, Awaitable) else value


CALLS = {
    "a call": lambda client: client.tokenize("a"),
    "a call that fails": lambda client: client.get_session("none"),
    "a stream": lambda client: client.generate(PROMPT),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_dead_address_is_told(connect, call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST_CONTACT", 0.2)
    ports = [free_port(), free_port()]
    client = connect(*(f"127.0.0.1:{port}" for port in ports), **PATIENT)
    with pytest.raises(outrider.Unavailable, match=f"^nobody answers at 127.0.0.1:{ports[1]}$"):
        await _value(call(client))
    await _value(client.close())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_server_that_was_there_is_waited_for(connect, call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST_CONTACT", 0.0)
    with ScriptedServer() as server:
        client = connect(f"127.0.0.1:{free_port()}", server.address, **PATIENT)
        with suppress(outrider.OutriderError):
            await _value(call(client))
    with pytest.raises(outrider.DeadlineExceeded):
        await _value(client.tokenize("a", timeout=0.5))
    await _value(client.close())
