"""Agents of several model families: a call, its result, the answer and a further question, by the official clients."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import openai
import pytest

from tests.gateway.harness.events import read_events
from tests.gateway.harness.family_gateway import FAMILIES, MODEL, family_gateway
from tests.gateway.harness.running_gateway import RunningGateway
from tests.unit.target.message.families import call_of_f

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "pattern": "^[A-Z][a-z]{2,5}$"}, "days": {"enum": [1, 2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
SYSTEM, QUESTION, FURTHER, RESULT = "Be brief.", "Which weather?", "And tomorrow?", "It is clear."
CHAT: dict[str, Any] = {"model": MODEL, "temperature": 0.7, "seed": 5, "max_completion_tokens": 200}
EXTRA = {"max_thinking_tokens": 4, "speculation": "never"}


OTHER_DOORS = (
    "qwen3",
    "mistral-small-3.2",
    "gpt-oss",
    "gemma-4",
)  # which refuse orders, or think otherwise
SYNTAXES = {"qwen3": "hermes", "mistral-small-3.2": "mistral_args", "glm-4.6": "glm", "qwen3-coder": "qwen3_coder"}
SYNTAXES |= {"gemma-4": "gemma4"}
SHOWN = {family: f"So: {call_of_f(syntax)}." for family, syntax in SYNTAXES.items()}
SHOWN |= dict.fromkeys(("llama-3", "gpt-oss"), '{"name": "Alice", "parameters": {"age": 3}}')


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """A family whose template the model has."""
    return str(request.param)


@pytest.fixture(scope="module")
def agent_gateway(family: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway in front of a target with the family's template."""
    with family_gateway(family, tmp_path_factory.mktemp("family")) as running:
        yield running


def content_by_doors(gateway: RunningGateway, form: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The text and the reason of an answer of a form, by each API and streamed."""
    said: Any = [{"role": "user", "content": QUESTION}]
    asked: dict[str, Any] = {"model": MODEL, "seed": 5, "temperature": 0.7, "max_thinking_tokens": 4, **form}
    chat = {**asked, "messages": said}
    (choice,) = gateway.post("/v1/chat/completions", chat).json()["choices"]
    assert "tool_calls" not in choice["message"] or not choice["message"]["tool_calls"]
    yield choice["message"]["content"], choice["finish_reason"]
    events = [*read_events(gateway.post("/v1/chat/completions", {**chat, "stream": True}).text.splitlines())]
    (*_, last) = parts = [event.data["choices"][0] for event in events if event.data["choices"]]
    yield "".join(part["delta"].get("content") or "" for part in parts), last["finish_reason"]
    whole = gateway.post("/v1/responses", {**asked, "input": QUESTION}).json()
    yield whole["output"][-1]["content"][0]["text"], {"completed": "stop"}[whole["status"]]
    answer = gateway.post("/v1/messages", {**chat, "max_tokens": 300}).json()
    yield answer["content"][-1]["text"], {"end_turn": "stop"}[answer["stop_reason"]]


def test_text_that_shows_a_call_is_content(agent_gateway: RunningGateway, family: str):
    num_doors = 4 if family in ("qwen3", "llama-3") else 1  # with a mark, and without one
    answers = islice(content_by_doors(agent_gateway, {"choice": [SHOWN[family]]}), num_doors)
    assert [*answers] == [(SHOWN[family], "stop")] * num_doors


WEATHER: dict[str, Any] = {"name": "weather", "parameters": {"properties": {"days": {"enum": [1], "default": 1}}}}
CALLED = [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Tokio"}'}}]
RESULT_PARTS = [{"type": "text", "text": RESULT}]


SAID = {"role": "user", "content": QUESTION}
OWN_ANSWERS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [
            SAID,
            {"role": "assistant", "content": "I look.", "reasoning_content": "Where?", "tool_calls": CALLED},
            {"role": "tool", "tool_call_id": "call_1", "content": RESULT_PARTS},
        ],
        "tools": [{"type": "function", "function": WEATHER}],
        "max_tokens": 1,
    },
    "/v1/responses": {
        "input": [
            SAID,
            {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Where?"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Tokio"}'},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": RESULT}]},
        ],
        "tools": [{"type": "function", **WEATHER}],
        "max_output_tokens": 1,
    },
    "/v1/messages": {
        "messages": [
            SAID,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Where?", "signature": "x"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Tokio"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": RESULT_PARTS}],
            },
        ],
        "tools": [{"name": "weather", "input_schema": WEATHER["parameters"]}],
        "max_tokens": 1,
    },
}


def test_a_models_own_answer_comes_back_by_every_door(agent_gateway: RunningGateway):
    """With its reasoning, its text and its calls; the result in parts, and the definition of the tool not complete."""
    conversation = OWN_ANSWERS["/v1/chat/completions"]
    text = prompt_of(agent_gateway, conversation["messages"], conversation["tools"])
    assert [text.count(one) for one in (QUESTION, "I look.", "Tokio", RESULT)] == [1] * 4
    answers = {path: agent_gateway.post(path, {"model": MODEL, **body}) for path, body in OWN_ANSWERS.items()}
    body = {name: value for name, value in OWN_ANSWERS["/v1/messages"].items() if name != "max_tokens"}
    counted = agent_gateway.post("/v1/messages/count_tokens", {"model": MODEL, **body})
    assert [one.status_code for one in (counted, *answers.values())] == [200] * 4
    chat, response, message = (answer.json()["usage"] for answer in answers.values())
    num_tokens = message["input_tokens"] + message["cache_read_input_tokens"]
    assert chat["prompt_tokens"] == response["input_tokens"] == counted.json()["input_tokens"] == num_tokens


def prompt_of(gateway: RunningGateway, messages: list[Any], tools: list[Any]) -> str:
    """The text of a conversation's prompt."""
    answer = gateway.post("/tokenize", {"messages": messages, "tools": tools, "return_token_strs": True})
    assert answer.status_code == 200, answer.text
    return "".join(answer.json()["token_strs"])


def test_an_agent_converses_by_chat_completions(agent_gateway: RunningGateway):
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    asked: Any = {**CHAT, "tools": tools, "extra_body": EXTRA}
    with openai.OpenAI(base_url=f"{agent_gateway.url}/v1", api_key="none", max_retries=0) as client:
        only: Any = {"tool_choice": "required", "parallel_tool_calls": False}
        first = client.chat.completions.create(messages=messages, **only, **asked).choices[0]
        (call,) = first.message.tool_calls or []
        assert first.finish_reason == "tool_calls"
        arguments = json.loads(call.function.arguments)
        assert arguments["days"] in (1, 2)
        messages += [first.message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
        second = client.chat.completions.create(messages=messages, **{**asked, "max_completion_tokens": 9}).choices[0]
        messages += [second.message.model_dump(), {"role": "user", "content": FURTHER}]
        *_, last = client.chat.completions.create(
            messages=messages, stream=True, **{**asked, "max_completion_tokens": 9}
        )
        assert last.choices[0].finish_reason in ("length", "stop")
    text = prompt_of(agent_gateway, messages, tools)
    assert all(one in text for one in (SYSTEM, QUESTION, arguments["city"], RESULT, FURTHER))


@pytest.mark.parametrize("family", OTHER_DOORS, indirect=True)
def test_an_agent_converses_by_responses(agent_gateway: RunningGateway):
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}]
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    asked: Any = {"model": MODEL, "temperature": 0.7, "instructions": SYSTEM, "tools": tools}
    asked |= {"extra_body": {**EXTRA, "seed": 5}, "max_output_tokens": 200, "parallel_tool_calls": False}
    with openai.OpenAI(base_url=f"{agent_gateway.url}/v1", api_key="none", max_retries=0) as client:
        first = client.responses.create(input=items, tool_choice="required", **asked)
        call: Any = first.output[-1]
        assert (call.type, json.loads(call.arguments)["days"] in (1, 2)) == ("function_call", True)
        items += [item.model_dump() for item in first.output]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULT})
        asked["max_output_tokens"] = 9
        second = client.responses.create(input=items, **asked)
        items += [item.model_dump() for item in second.output]
        items.append({"role": "user", "content": FURTHER})
        third = client.responses.create(input=items, **asked)
    assert third.usage is not None
    assert third.usage.input_tokens > first.usage.input_tokens  # type: ignore[union-attr]


@pytest.mark.parametrize("family", OTHER_DOORS, indirect=True)
def test_an_agent_converses_by_messages(agent_gateway: RunningGateway):
    import anthropic  # which takes seconds: no worker without these tests needs it

    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    asked: Any = {"model": MODEL, "max_tokens": 200, "system": SYSTEM, "tools": tools}
    asked |= {"extra_body": {**EXTRA, "seed": 5, "temperature": 0.7}}
    with anthropic.Anthropic(base_url=agent_gateway.url, api_key="none", max_retries=0) as client:
        first = client.messages.create(
            messages=messages, tool_choice={"type": "any", "disable_parallel_tool_use": True}, **asked
        )
        calls = [block for block in first.content if block.type == "tool_use"]
        assert first.stop_reason == "tool_use"
        results: list[Any] = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT} for call in calls]
        reminder = {"type": "text", "text": "Be kind."}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [*results, reminder]}]
        second = client.messages.create(messages=messages, **{**asked, "max_tokens": 9})
        messages += [{"role": "assistant", "content": second.content or "."}, {"role": "user", "content": FURTHER}]
        with client.messages.stream(messages=messages, **{**asked, "max_tokens": 9}) as stream:
            assert stream.get_final_message().usage.output_tokens <= 9
