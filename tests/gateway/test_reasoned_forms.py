"""Each API's form of JSON holds for the text after the reasoning, whose tokens its usage counts."""

import json
from typing import Any

import pytest

from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway

SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["red", "green"]}},
    "required": ["name"],
    "additionalProperties": False,
}
BEGUN = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "<think>"}]
SAMPLED = {"seed": 5, "temperature": 0.7, "max_thinking_tokens": 6}
CHAT: dict[str, Any] = {
    **SAMPLED,
    "messages": BEGUN,
    "continue_final_message": True,
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
}


@pytest.mark.parametrize("speculation", ["never", "always"])
def test_chat_completions(chat_gateway: RunningGateway, speculation: str):
    whole = chat_gateway.post("/v1/chat/completions", {**CHAT, "speculation": speculation}).json()
    (choice,) = whole["choices"]
    assert json.loads(choice["message"]["content"])["name"] in ("red", "green")
    assert choice["message"]["reasoning_content"]
    assert choice["finish_reason"] == "stop"
    usage = whole["usage"]
    assert 6 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]


def test_a_streamed_usage_counts_alike(chat_gateway: RunningGateway):
    whole = chat_gateway.post("/v1/chat/completions", CHAT).json()
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *_, last = read_events(chat_gateway.post("/v1/chat/completions", {**CHAT, **options}).text.splitlines())
    count = whole["usage"]["completion_tokens_details"]["reasoning_tokens"]
    assert last.data["usage"]["completion_tokens_details"]["reasoning_tokens"] == count


def test_a_form_that_is_cut_has_the_reason_length(chat_gateway: RunningGateway):
    (choice,) = chat_gateway.post("/v1/chat/completions", {**CHAT, "max_tokens": 12}).json()["choices"]
    assert choice["finish_reason"] == "length"


def test_responses(chat_gateway: RunningGateway):
    form = {"type": "json_schema", "name": "a", "schema": SCHEMA}
    body = {**SAMPLED, "input": "Which?", "text": {"format": form}}
    whole = chat_gateway.post("/v1/responses", body).json()
    assert whole["status"] == "completed"
    message = whole["output"][-1]
    assert json.loads(message["content"][0]["text"])["name"] in ("red", "green")
    assert whole["usage"]["output_tokens_details"]["reasoning_tokens"] < whole["usage"]["output_tokens"]


def test_messages(chat_gateway: RunningGateway):
    body = {**SAMPLED, "max_tokens": 100, "messages": BEGUN, "json_schema": SCHEMA}
    whole = chat_gateway.post("/v1/messages", body).json()
    thinking, text = whole["content"]
    assert (thinking["type"], text["type"]) == ("thinking", "text")
    assert json.loads(text["text"])["name"] in ("red", "green")
    assert 6 < whole["usage"]["output_tokens_details"]["reasoning_tokens"] < whole["usage"]["output_tokens"]
