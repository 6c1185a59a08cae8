"""An answer cut by a limit reports it, calls or not; one that breaks off ends with an error in the API's own shape."""

from collections.abc import Iterator
from typing import Any

import grpc
import openai
import pytest

from services.engine.config import ConfigError
from services.gateway.config import GatewayConfig
from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import Fault, ScriptedServer

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TEXT = "A last-in, first-out stack"
SAID: Any = [{"role": "user", "content": TEXT}]
SAMPLED = {"seed": 5, "temperature": 0.7}
CALLING: dict[str, tuple[dict[str, Any], str]] = {
    "/v1/chat/completions": (
        {
            "messages": [{"role": "system", "content": "Be short."}, *SAID],
            "tools": [{"type": "function", "function": {"name": "now"}}],
            "tool_choice": "required",
            **SAMPLED,
        },
        "max_tokens",
    ),
    "/v1/responses": (
        {
            "instructions": "Be short.",
            "input": TEXT,
            "tools": [{"type": "function", "name": "now", "parameters": NOTHING}],
            "tool_choice": "required",
            **SAMPLED,
        },
        "max_output_tokens",
    ),
    "/v1/messages": (
        {
            "system": "Be short.",
            "messages": SAID,
            "tools": [{"name": "now", "input_schema": NOTHING}],
            "tool_choice": {"type": "any"},
            **SAMPLED,
        },
        "max_tokens",
    ),
}


def told(path: str, answer: dict[str, Any]) -> tuple[Any, Any]:
    """Why it ended, and the name of what it calls."""
    if path == "/v1/messages":
        return answer["stop_reason"], answer["content"][-1]["name"]
    if path == "/v1/responses":
        return answer["status"], answer["output"][-1]["name"]
    (choice,) = answer["choices"]
    return choice["finish_reason"], choice["message"]["tool_calls"][0]["function"]["name"]


@pytest.mark.parametrize(
    ("path", "whole", "cut"),
    [
        ("/v1/chat/completions", "tool_calls", "length"),
        ("/v1/responses", "completed", "incomplete"),
        ("/v1/messages", "tool_use", "max_tokens"),
    ],
)
def test_a_limit_that_ends_an_answer_with_calls_is_reported(
    chat_gateway: RunningGateway, path: str, whole: str, cut: str
):
    body, limit = CALLING[path]
    free = chat_gateway.post(path, {**body, limit: 200}).json()
    assert told(path, free) == (whole, "now")
    usage = free["usage"]
    most = (usage.get("output_tokens") or usage["completion_tokens"]) - 1  # all but the one that ends it
    assert told(path, chat_gateway.post(path, {**body, limit: most}).json()) == (cut, "now")


@pytest.fixture
def breaking() -> Iterator[RunningGateway]:
    """A gateway whose target fails in mid-stream."""
    fault = Fault(3, grpc.StatusCode.INTERNAL)
    with ScriptedServer(fault) as server, RunningGateway(server.address, max_retries=0) as gateway:
        yield gateway


MESSAGE = "a target failed to serve this request"


def test_a_response_ends_with_an_event_of_its_own(breaking: RunningGateway):
    text = breaking.post("/v1/responses", {"input": "a", "stream": True}).text
    *events, last = read_events([*text.splitlines(), ""])
    assert (last.name, last.data) == (
        "error",
        {"type": "error", "code": None, "message": MESSAGE, "param": None, "sequence_number": len(events)},
    )


def test_openais_client_gets_the_error_as_an_event(breaking: RunningGateway):
    with openai.OpenAI(base_url=f"{breaking.url}/v1", api_key="none", max_retries=0) as client:
        *_, last = client.responses.create(model="toy", input="a", stream=True)
    assert (last.type, getattr(last, "message", "")) == ("error", MESSAGE)


def test_openais_client_raises_in_a_completion(breaking: RunningGateway):
    with (
        openai.OpenAI(base_url=f"{breaking.url}/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.APIError, match=MESSAGE),
    ):
        list(client.completions.create(model="toy", prompt="a", stream=True))


def test_anthropics_client_raises(breaking: RunningGateway):
    import anthropic  # which takes seconds: no worker without these tests needs it

    with (
        anthropic.Anthropic(base_url=breaking.url, api_key="none", max_retries=0) as client,
        pytest.raises(anthropic.APIStatusError, match=MESSAGE),
    ):
        list(client.messages.create(model="toy", messages=SAID, max_tokens=9, stream=True))


def test_another_target_goes_on_with_the_same_text() -> None:
    body = {"prompt": "abc", "seed": 5, "max_tokens": 20}
    with ScriptedServer() as alone, RunningGateway(alone.address) as gateway:
        expected = gateway.post("/v1/completions", body).json()["choices"]
    with (
        ScriptedServer(Fault(4, how="hang")) as slow,
        ScriptedServer() as fast,
        RunningGateway(slow.address, fast.address, hedge_seconds=0.05) as gateway,
    ):
        assert gateway.post("/v1/completions", body).json()["choices"] == expected
        assert slow.servicer.ended.wait(60)
        assert fast.requests


@pytest.mark.parametrize(
    ("targets", "seconds", "said"),
    [
        (("a:1", "a:2"), 0.0, "hedge_seconds is 0"),
        (("a:1",), 1.0, "hedge_seconds is 1.0; it must not be set with one target only"),
    ],
)
def test_settings_that_cannot_be_are_refused(targets: tuple[str, ...], seconds: float, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        GatewayConfig(targets=targets, hedge_seconds=seconds)
