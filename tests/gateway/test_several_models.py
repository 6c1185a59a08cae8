"""Several models served by one gateway: all are listed, and a request gets the one that it names."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from services.target.engines.model_setup import ModelSetup
from services.target.models.residency_config import ResidencyConfig
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.servers.scripted_server import ScriptedServer
from tests.harness.servers.server import engine_config, target_server


@pytest.fixture(scope="module")
def both(model: Path) -> Iterator[RunningGateway]:
    """A gateway before a target with two models."""
    other = ModelSetup(engine=engine_config(random_checkpoint(Kind.QWEN3)), name="other", lookup=False)
    with target_server(model, name="one", further=[other]) as target, RunningGateway(target.address) as running:
        yield running


def test_all_models_are_listed_and_each_can_be_retrieved(both: RunningGateway):
    with openai.OpenAI(base_url=f"{both.url}/v1", api_key="none", max_retries=0) as client:
        assert [each.id for each in client.models.list()] == ["one", "other"]
        assert client.models.retrieve("other").id == "other"
        with pytest.raises(openai.NotFoundError, match="'third' is not served here; allowed: 'one', 'other'"):
            client.models.retrieve("third")
        with pytest.raises(openai.NotFoundError, match="'third' is not served here; allowed: 'one', 'other'"):
            client.completions.create(model="third", prompt="a")


def test_each_endpoint_asks_the_named_model(both: RunningGateway):
    said = [{"role": "user", "content": "a"}]
    with both.rpc() as rpc:
        expected = {name: rpc.generate("a", model=name, seed=3, max_tokens=5).text for name in ("one", "other")}
        tokens = {name: [*rpc.tokenize("import os", model=name).token_ids] for name in ("one", "other")}
    assert expected["one"] != expected["other"]
    for name in ("one", "other"):
        asked = {"model": name, "seed": 3, "max_tokens": 5}
        answer = both.post("/v1/completions", {"prompt": "a", **asked}).json()
        assert (answer["model"], answer["choices"][0]["text"]) == (name, expected[name])
        assert both.post("/v1/generate", {"prompt": "a", **asked}).json()["model"] == name
        assert both.post("/v1/messages", {"messages": said, **asked}).json()["model"] == name
        ids = both.post("/tokenize", {"model": name, "prompt": "import os"}).json()["tokens"]
        assert ids == tokens[name]
        assert both.post("/detokenize", {"model": name, "tokens": ids}).json() == {"prompt": "import os"}
    counts = {name: both.post("/v1/messages/count_tokens", {"model": name, "messages": said}) for name in expected}
    assert all(count.status_code == 200 for count in counts.values())


def test_an_unloaded_model_is_listed_and_loaded_on_demand(model: Path):
    other = ModelSetup(engine=engine_config(random_checkpoint(Kind.QWEN3)), name="other", lookup=False)
    residency = ResidencyConfig(load_on_demand=True)
    with (
        target_server(model, name="one", further=[other], residency=residency) as target,
        RunningGateway(target.address) as gateway,
    ):
        for name, value in (("one", "loaded"), ("other", "unloaded")):
            told = httpx2.get(f"{gateway.url}/v1/models/{name}", timeout=60).json()
            assert (told["id"], told["status"]["value"]) == (name, value)
        asked = {"model": "other", "prompt": "a", "max_tokens": 5}
        assert gateway.post("/v1/completions", asked).json()["model"] == "other"
        listed = httpx2.get(f"{gateway.url}/v1/models", timeout=60).json()["data"]
        assert httpx2.get(f"{gateway.url}/v1/models/", timeout=60).json()["data"] == listed
        assert [each["status"] for each in listed] == 2 * [{"value": "loaded", "loaded_share": 1}]


def test_a_model_that_is_being_loaded_is_listed_by_its_name():
    with ScriptedServer() as server, RunningGateway(server.address) as gateway:
        toy, large = httpx2.get(f"{gateway.url}/v1/models", timeout=60).json()["data"]
        assert (toy["id"], toy["status"]["value"]) == ("toy", "loaded")
        assert large == {
            "id": "large",
            "object": "model",
            "created": 0,
            "owned_by": "outrider",
            "status": {"value": "loading", "loaded_share": 0},
        }
