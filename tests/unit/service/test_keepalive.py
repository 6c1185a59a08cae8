"""Keepalive: no server of ours ends a connection because a client of ours asks whether it is there."""

import asyncio
from pathlib import Path

import pytest
from grpc import aio
from grpc._cython import cygrpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from outrider.servers.channel import channel_options
from services.service import rpc_server as server
from services.service.keepalive import PERMITTED_PING_MS, PING_MS
from services.target.speculation.link import draft_client

_FASTER = 8  # than in earnest; gRPC asks once a second at most
_EARLY = 0.9  # of the interval: what jitter makes of some of them
_PATIENCE_SECONDS = 60

SERVER, LINK, CLIENT = dict(server._OPTIONS), dict(draft_client._OPTIONS), dict(channel_options([], is_encrypted=True))


def test_server_and_link_use_the_same_ping_constants():
    assert SERVER["grpc.http2.min_ping_interval_without_data_ms"] == PERMITTED_PING_MS
    assert SERVER["grpc.keepalive_permit_without_calls"] == 1
    assert LINK["grpc.keepalive_time_ms"] == PING_MS


def test_every_option_is_one_that_grpc_has():
    """It says nothing of names that it does not know."""
    known = Path(cygrpc.__file__).read_bytes()
    assert [name for name in {**SERVER, **LINK, **CLIENT} if name.encode() not in known] == []


@pytest.mark.parametrize("options", [LINK, CLIENT], ids=["link", "client"])
def test_a_server_permits_twice_as_often_as_clients_ask(options):
    permitted = SERVER["grpc.http2.min_ping_interval_without_data_ms"]
    assert 2 * permitted <= options["grpc.keepalive_time_ms"]


async def why_ended(*, permitted_ms: int, asked_ms: int) -> str:
    """Why a server ends a silent call through which its client asks so often; raises TimeoutError if it does not."""
    permitted = {"grpc.http2.min_ping_interval_without_data_ms": permitted_ms, "grpc.http2.max_ping_strikes": 1}
    serving = aio.server(options=[*{**SERVER, **permitted}.items()])
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), serving)
    port = serving.add_insecure_port("127.0.0.1:0")
    await serving.start()
    asks = [("grpc.keepalive_time_ms", asked_ms), ("grpc.http2.max_pings_without_data", 0)]
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}", options=asks) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            await watch.read()
            await asyncio.wait_for(watch.read(), _PATIENCE_SECONDS)
            return "something was said"
    except aio.AioRpcError as error:
        return str(error.details())
    finally:
        await serving.stop(None)


async def test_a_silent_call_outlasts_pings_that_come_a_little_early():
    permitted, asked = SERVER["grpc.http2.min_ping_interval_without_data_ms"], LINK["grpc.keepalive_time_ms"]
    early = int(_EARLY * asked) // _FASTER
    ours = asyncio.create_task(why_ended(permitted_ms=permitted // _FASTER, asked_ms=early))
    equal = await why_ended(permitted_ms=asked // _FASTER, asked_ms=early)
    assert equal == "Too many pings", "where a server permits no more than clients ask, jitter ends links"
    await asyncio.sleep(early / 1000)  # ours may be one ping late
    assert not ours.done()
    ours.cancel()
    await asyncio.wait([ours])
