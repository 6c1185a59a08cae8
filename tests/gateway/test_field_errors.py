"""Errors of a body name the client's own field, and say what it may be."""

from typing import Any

import pytest

from services.gateway.generation.encoded_list import encode
from services.gateway.generation.problem import Problem
from services.gateway.generation.request import GenerationRequest
from services.gateway.generation.validation import parse
from services.gateway.openai.chat.request import ChatRequest
from services.gateway.openai.completions.request import CompletionRequest
from services.gateway.openai.responses.request import ResponseRequest

SAID = {"messages": [{"role": "user", "content": "a"}]}


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        (
            ChatRequest,
            {**SAID, "response_format": {"type": "json_schema"}},
            "response_format.json_schema: Field required",
        ),
        (
            ChatRequest,
            {**SAID, "response_format": {"type": "xml"}},
            "response_format.type: is 'xml'; allowed: 'text', 'json_object', 'json_schema'",
        ),
        (
            ResponseRequest,
            {"input": [{"type": "image"}]},
            "input[0].type: is 'image'; allowed: 'message', 'function_call', 'function_call_output', 'reasoning'",
        ),
        (ResponseRequest, {"input": []}, "input: must not be empty"),
        (ResponseRequest, {"input": [5]}, "input[0]: Input should be an object"),
        (ChatRequest, {"messages": []}, "messages: must not be empty"),
        (
            ChatRequest,
            {**SAID, "max_tokns": 3},
            "max_tokns: Extra inputs are not permitted; did you mean max_tokens?",
        ),
        (
            CompletionRequest,
            {"prompt": "a", "logit_bias": {"7": "x"}},
            'logit_bias["7"]: Input should be a valid number, unable to parse string as a number',
        ),
        (
            CompletionRequest,
            {"prompt": "a", "logit_bias": {"seven": 1}},
            'logit_bias["seven"]: Input should be a valid integer, unable to parse string as an integer',
        ),
    ],
)
def test_a_body_s_error_is_told(kind: type[GenerationRequest], body: dict[str, Any], told: str):
    with pytest.raises(Problem) as refused:
        parse(kind, encode(body, is_ascii=True))
    assert (refused.value.message, refused.value.field) == (told, told.partition(": ")[0])


def test_a_bias_that_the_target_refuses_is_named_by_its_token():
    request = CompletionRequest(prompt="a", logit_bias={5: 1.0, 999: 2.0})
    assert request.name_of("sampling.logit_bias[1].token_id") == 'logit_bias["999"]'
