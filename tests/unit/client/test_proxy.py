"""Clear text never goes to a proxy that the environment names, not even on its way to this machine."""

from collections.abc import Iterator

import grpc
import pytest

from services.cli.connection import open_channel, open_local_channel
from services.service.access.credential_files import Credentials
from services.target.speculation.link import draft_client
from tests.harness.network.unused_proxy import unused_proxy
from tests.harness.servers.client_drivers import Collect, check_whole, with_both_clients
from tests.harness.servers.scripted_server import ScriptedServer

SECONDS = 20


@pytest.fixture(autouse=True)
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No connection has come to it in the end."""
    with unused_proxy(monkeypatch):
        yield


@with_both_clients
def test_a_clients_clear_text_goes_to_no_proxy(collect: Collect) -> None:
    with ScriptedServer() as server:
        check_whole(*collect(server.address, timeout=SECONDS))


@pytest.mark.parametrize("open_one", [open_channel, open_local_channel])
def test_a_commands_clear_text_goes_to_no_proxy(open_one: type[grpc.Channel]) -> None:
    with ScriptedServer() as server, open_one(server.address, None) as channel:
        grpc.channel_ready_future(channel).result(SECONDS)


async def test_a_draft_links_clear_text_goes_to_no_proxy() -> None:
    with ScriptedServer() as server:
        async with draft_client._channel(server.address, Credentials()) as channel:
            await channel.channel_ready()
