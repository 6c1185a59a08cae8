"""A caller's key is the RPC's token, by whichever client it is sent."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from services.gateway.config import GatewayConfig
from services.gateway.gateway import Gateway
from services.gateway.generation import clients
from services.service.server_config import ServerConfig
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.server import target_server

KEY = "key-of-alice-0123456789"


@pytest.fixture(scope="module")
def guarded(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway in front of a target that lets only one caller in."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    tokens.write_text(json.dumps({"name": "alice", "sha256": digest, "scopes": ["generate"]}))
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tokens)
    with target_server(model, server=config) as target, RunningGateway(target.address) as gateway:
        yield gateway


def test_a_good_key_comes_in(guarded: RunningGateway):
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=KEY) as client:
        name = client.models.list().data[0].id
        assert client.completions.create(model=name, prompt="a", max_tokens=2).usage.completion_tokens == 2
    answer = guarded.post("/v1/completions", {"prompt": "a", "max_tokens": 2}, headers={"x-api-key": KEY})
    assert answer.status_code == 200


@pytest.mark.parametrize("key", ["another-key-0123456789", "two words", "ключ".encode().decode("latin-1")])
def test_another_key_is_refused_as_openai_refuses_it(guarded: RunningGateway, key: str):
    answer = guarded.post(
        "/v1/completions", {"prompt": "a"}, headers={"authorization": f"Bearer {key}".encode("latin-1")}
    )
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"
    assert key not in answer.text


def test_without_a_key_only_the_health_is_shown(guarded: RunningGateway):
    assert guarded.post("/v1/completions", {"prompt": "a"}).status_code == 401
    assert httpx2.get(f"{guarded.url}/v1/models", timeout=60).status_code == 401
    for headers in ({}, {"authorization": "Bearer two words"}):
        assert httpx2.get(f"{guarded.url}/health", headers=headers, timeout=60).json() == {"status": "ok"}


def test_many_keys_keep_few_idle_clients(guarded: RunningGateway, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clients, "_MOST_IDLE", 4)
    with httpx2.Client(timeout=60) as client:
        for number in range(8):
            client.get(f"{guarded.url}/v1/models", headers={"x-api-key": f"key{number}"})
    assert len(guarded.gateway._clients._clients) <= 4


async def test_no_key_is_sent_in_clear_text_beyond_this_machine():
    for targets, sends in (("127.0.0.1:1",), True), (("127.0.0.1:1", "192.0.2.1:1"), False):
        assert Gateway(GatewayConfig(targets=targets))._sends_keys is sends
