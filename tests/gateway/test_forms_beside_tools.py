"""A form beside tools: the answer is calls or the form by each API, and a tool that cannot be held is named by each."""

import json
import re
from typing import Any

import pytest

from services.engine.text.tokenizer import Tokenizer
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.checkpoints import byte_level_tokenizer

MODEL = "llama-torch.float32"  # of the random checkpoint
SAID: Any = [{"role": "user", "content": "A last-in, first-out stack"}]
SKY: dict[str, Any] = {"type": "object", "properties": {"sky": {"enum": ["clear", "grey"]}}, "required": ["sky"]}
SKY |= {"additionalProperties": False, "x-guidance": {"whitespace_flexible": False}}
CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
CITY |= {"additionalProperties": False}
SAMPLED = {"model": MODEL, "seed": 5, "temperature": 0.7, "reasoning_marks": []}
TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
DOORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "/v1/chat/completions": (
        {
            "messages": SAID,
            "response_format": {"type": "json_schema", "json_schema": {"name": "sky", "schema": SKY}},
            "tools": [{"type": "function", "function": {"name": "see", "parameters": CITY, "strict": True}}],
            "parallel_tool_calls": False,
        },
        "tools[0].function.parameters",
        r'"arguments":"\{\\"city\\": \\"(Rome|Oslo)\\"\}"',
    ),
    "/v1/responses": (
        {
            "input": SAID,
            "text": {"format": {"type": "json_schema", "name": "sky", "schema": SKY}},
            "tools": [{"type": "function", "name": "see", "parameters": CITY, "strict": True}],
            "parallel_tool_calls": False,
        },
        "tools[0].parameters",
        r'"arguments":"\{\\"city\\": \\"(Rome|Oslo)\\"\}"',
    ),
    "/v1/messages": (
        {
            "messages": SAID,
            "max_tokens": 200,
            "output_config": {"format": {"type": "json_schema", "schema": SKY}},
            "tools": [{"name": "see", "input_schema": CITY, "strict": True}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        },
        "tools[0].input_schema",
        r'"input":\{"city":"(Rome|Oslo)"\}',
    ),
}


@pytest.mark.parametrize("path", DOORS)
def test_each_api_takes_a_form_beside_tools(chat_gateway: RunningGateway, path: str):
    request, _, call = DOORS[path]
    request = {**SAMPLED, **request}
    for wanted, avoided in ((r"\{\\\"sky\\\":\\\"(clear|grey)\\\"\}", "<"), (call, "{")):
        request["begin_suppress_token_ids"] = TOKENIZER.ids_beginning_with(avoided.encode())
        answer = chat_gateway.post(path, request)
        assert answer.status_code == 200, answer.text
        assert re.search(wanted, answer.text), answer.text


@pytest.mark.parametrize("path", DOORS)
def test_each_api_names_a_tool_that_cannot_be_held(chat_gateway: RunningGateway, path: str):
    request, field, _ = DOORS[path]
    text = json.dumps(request).replace('["Rome", "Oslo"]', "[9007199254740993]")
    answer = chat_gateway.post(path, {**SAMPLED, **json.loads(text)})
    assert answer.status_code == 400
    assert f"{field}: of 'see' cannot be followed: enum has 9007199254740993" in answer.text
