"""A name of several addresses stands for all of these targets."""

from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import ScriptedServer


def test_requests_are_spread_over_the_addresses_of_a_target():
    with ScriptedServer() as one, ScriptedServer() as other:
        name = f"ipv4:{one.address},{other.address}".replace("localhost", "127.0.0.1")
        with RunningGateway(name, insecure=True) as gateway:
            for _ in range(20):
                assert gateway.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status_code == 200
        counts = [len(server.servicer.requests) for server in (one, other)]
    assert sum(counts) == 20
    assert min(counts) >= 5, "the first may be alone until the other is connected"
