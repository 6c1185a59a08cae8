"""Agents that others have written hold a conversation with calls of tools, whatever family the model is of."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.harness.family_gateway import FAMILIES, family_gateway
from tests.gateway.harness.running_gateway import RunningGateway
from tests.outsiders.conftest import Run, found
from tests.outsiders.tools import SCRIPTS, are_missing

SAID = "Which weather?"


@pytest.fixture(scope="module", params=FAMILIES)
def agent_gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway in front of a target with the family's template."""
    if are_missing():
        pytest.skip("not installed: programs of others, which come with make doors-test")
    with family_gateway(request.param, tmp_path_factory.mktemp("family")) as running:
        yield running


def told(run: Run, gateway: RunningGateway, tool: str) -> Any:
    """What the tool's agent tells in its last line."""
    command = [str(found(tool) / "python"), str(SCRIPTS / f"agent_{tool}.py"), f"{gateway.url}/v1", SAID]
    return json.loads(run(command).strip().splitlines()[-1])


def test_litellm(run: Run, agent_gateway: RunningGateway):
    for name, arguments, reason in told(run, agent_gateway, "litellm").values():
        assert (name, arguments["days"] in (1, 2)) == ("weather", True)
        assert reason in ("length", "stop")


def test_langchain(run: Run, agent_gateway: RunningGateway):
    for name, arguments, kind in told(run, agent_gateway, "langchain").values():
        assert (name, arguments["days"] in (1, 2), kind) == ("Weather", True, "ai")


def test_pydantic_ai(run: Run, agent_gateway: RunningGateway):
    for days, messages in told(run, agent_gateway, "pydantic_ai").values():
        assert days[0] in (1, 2)
        assert len(messages) >= 4
