"""Adapters behind the gateway: each is listed as a model, by its parent, and answers where it is asked as one."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.server import target_server


@pytest.fixture(scope="module")
def adapted(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway before a target with an adapter."""
    loras = {"tuned": write_adapter(tmp_path_factory.mktemp("lora"), model, seed=1)}
    with target_server(model, name="base", loras=loras) as target, RunningGateway(target.address) as running:
        yield running


def test_an_adapter_is_listed_with_its_parent(adapted: RunningGateway):
    with openai.OpenAI(base_url=f"{adapted.url}/v1", api_key="none", max_retries=0) as client:
        base, tuned = client.models.list()
        assert (base.id, tuned.id, tuned.to_dict()["parent"]) == ("base", "tuned", "base")
        assert client.models.retrieve("tuned").to_dict() == tuned.to_dict() != base.to_dict()
        assert client.models.retrieve("base").to_dict() == base.to_dict()


def test_an_adapter_answers_as_a_model_and_by_the_lora_field(adapted: RunningGateway):
    asked = {"prompt": "a", "seed": 3, "max_tokens": 8}
    with adapted.rpc() as rpc:
        expected = {name: rpc.generate("a", model=name, seed=3, max_tokens=8).text for name in ("base", "tuned")}
    assert expected["base"] != expected["tuned"]
    for fields, name in (({}, "base"), ({"model": "tuned"}, "tuned"), ({"lora": "tuned"}, "tuned")):
        answer = adapted.post("/v1/completions", {**asked, **fields}).json()
        assert (answer["model"], answer["choices"][0]["text"]) == (name, expected[name])
    refused = adapted.post("/v1/completions", {**asked, "lora": "other"})
    assert refused.status_code == 400
    assert "lora: 'other' is not loaded; allowed: 'tuned'" in refused.text
