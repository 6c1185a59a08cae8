"""Chat completions by OpenAI's own client have the bytes of the RPC: words, thoughts, calls and JSON."""

import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict

from outrider import Result
from tests.gateway.harness.running_gateway import RunningGateway

MODEL = "llama-torch.float32"  # of the random checkpoint
SAID: Any = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "A last-in, first-out stack"}]
SAMPLED: dict[str, Any] = {"temperature": 0.7, "seed": 5, "max_completion_tokens": 40}
CITY = {"type": "string", "pattern": "^[A-Z][a-z]{2,5}$"}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells it.",
        "parameters": {
            "type": "object",
            "properties": {"city": CITY},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
NOW: Any = {"type": "function", "function": {"name": "now"}}


class Colour(BaseModel):
    """What an answer is parsed as."""

    model_config = ConfigDict(extra="forbid")
    name: Literal["red", "green", "blue"]
    is_dark: bool


def rpc(gateway: RunningGateway, messages: Any = SAID, **options: Any) -> Result:
    with gateway.rpc() as client:
        sampled = {"temperature": 0.7, "seed": 5, "max_tokens": 40, "message_deltas": True}
        return client.generate(messages, **{**sampled, **options})


def test_one_seed_gives_the_bytes_of_the_rpc(chat_client: openai.OpenAI, chat_gateway: RunningGateway):
    expected = rpc(chat_gateway).message
    assert expected is not None
    whole = chat_client.chat.completions.create(model=MODEL, messages=SAID, **SAMPLED)
    streamed = list(chat_client.chat.completions.create(model=MODEL, messages=SAID, stream=True, **SAMPLED))
    assert whole.choices[0].message.content == expected.content
    assert "".join(one.choices[0].delta.content or "" for one in streamed) == expected.content
    assert [one.choices[0].delta.role for one in streamed][:2] == ["assistant", None]
    assert streamed[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_predicted_output_is_verified_and_changes_no_byte(chat_client: openai.OpenAI, in_parts: bool) -> None:
    """The answer is one letter again and again, whose text has the same tokens."""
    text = "x" * 40
    parts = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]
    prediction: Any = {"type": "content", "content": parts if in_parts else text}

    def ask(speculation: str, **fields: Any) -> Any:
        extra = {"speculation": speculation, "lookup": False if speculation == "always" else None}
        return chat_client.chat.completions.create(
            model=MODEL, messages=SAID, logit_bias={"91": 100}, extra_body=extra, **{**SAMPLED, **fields}
        )

    for speculation, is_used in (("always", True), ("never", False)):
        answer = ask(speculation, prediction=prediction)
        assert answer.choices[0].message.content == text
        assert (answer.usage.completion_tokens_details.accepted_prediction_tokens > 30) == is_used
    assert ask("always").usage.completion_tokens_details.accepted_prediction_tokens == 0
    with pytest.raises(openai.BadRequestError, match="prediction"):
        ask("always", prediction={"type": "content", "content": 5})


def test_a_developer_speaks_as_the_system_and_parts_are_lines(chat_client: openai.OpenAI, chat_gateway: RunningGateway):
    parts = [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}]
    said: Any = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": parts}]
    expected = rpc(chat_gateway, [SAID[0], {"role": "user", "content": "first\nsecond"}]).message
    assert expected is not None
    answer = chat_client.chat.completions.create(model=MODEL, messages=said, **SAMPLED)
    assert answer.choices[0].message.content == expected.content


@pytest.mark.parametrize("stream", [False, True])
def test_required_calls_follow_their_schemas(chat_client: openai.OpenAI, chat_gateway: RunningGateway, stream: bool):
    tools = [tool["function"] for tool in (WEATHER, NOW)]
    expected = rpc(chat_gateway, max_tokens=200, tools=tools, tool_choice="required").message
    assert expected is not None
    asked = {**SAMPLED, "max_completion_tokens": 200, "tools": [WEATHER, NOW], "tool_choice": "required"}
    if stream:
        with chat_client.chat.completions.stream(model=MODEL, messages=SAID, **asked) as events:
            answer: Any = events.get_final_completion()
    else:
        answer = chat_client.chat.completions.create(model=MODEL, messages=SAID, **asked)
    calls = answer.choices[0].message.tool_calls
    assert [(call.function.name, call.function.arguments) for call in calls] == [
        (call.name, call.arguments) for call in expected.tool_calls
    ]
    assert len({call.id for call in calls}) == len(calls) >= 1
    assert answer.choices[0].finish_reason == "tool_calls"
    for call in calls:
        json.loads(call.function.arguments)


def test_one_tool_is_chosen_and_its_result_goes_back(chat_client: openai.OpenAI):
    choice: Any = {"type": "function", "function": {"name": "weather"}}
    asked: Any = {"model": MODEL, "tools": [NOW, WEATHER], **SAMPLED, "max_completion_tokens": 200}
    answer = chat_client.chat.completions.create(
        messages=SAID, tool_choice=choice, parallel_tool_calls=False, **asked
    ).choices[0]
    (call,) = answer.message.tool_calls or []
    assert call.function.name == "weather"
    told = [*SAID, answer.message, {"role": "tool", "tool_call_id": call.id, "content": "warm"}]
    after = chat_client.chat.completions.create(messages=told, tool_choice="none", **asked)
    assert after.usage is not None
    assert after.choices[0].finish_reason in ("stop", "length")


def test_json_is_parsed(chat_client: openai.OpenAI):
    asked: Any = {**SAMPLED, "max_completion_tokens": 200}
    answer = chat_client.chat.completions.parse(model=MODEL, messages=SAID, response_format=Colour, **asked)
    assert answer.choices[0].message.parsed is not None
    assert answer.choices[0].message.parsed.name in ("red", "green", "blue")


def test_samples_and_candidates_are_returned(chat_client: openai.OpenAI, chat_gateway: RunningGateway):
    expected = rpc(chat_gateway, num_samples=2, top_candidates=3)
    asked: Any = {"model": MODEL, "messages": SAID, "logprobs": True, "top_logprobs": 3, "n": 2, **SAMPLED}
    answer = chat_client.chat.completions.create(**asked)
    streamed: list[list[Any]] = [[], []]
    for part in chat_client.chat.completions.create(stream=True, **asked):
        for choice in part.choices:
            streamed[choice.index] += (choice.logprobs.content if choice.logprobs else None) or []
    for choice, result, seen in zip(answer.choices, (expected, *expected.further_samples), streamed, strict=True):
        assert result.message is not None
        assert choice.message.content == result.message.content
        assert choice.logprobs is not None
        told = choice.logprobs.content or []
        assert told == seen
        assert [one.logprob for one in told] == [token.raw_logprob for token in result.tokens]
        assert [bytes(one.bytes or ()) for one in told] == [token.bytes for token in result.tokens]
        assert [len(one.top_logprobs) for one in told] == [3] * len(told)


def test_reasoning_is_separated_from_content(chat_client: openai.OpenAI, chat_gateway: RunningGateway):
    said: Any = [*SAID, {"role": "assistant", "content": "<think>so"}]
    expected = rpc(chat_gateway, said, continue_final_message=True).message
    assert expected is not None
    asked: Any = {"model": MODEL, "messages": said, "extra_body": {"continue_final_message": True}, **SAMPLED}
    message: Any = chat_client.chat.completions.create(**asked).choices[0].message
    deltas: Any = [one.choices[0].delta for one in chat_client.chat.completions.create(stream=True, **asked)]
    thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert message.reasoning_content == thought == expected.reasoning_content
    assert thought


@pytest.mark.parametrize(
    ("fields", "name", "said"),
    [
        ({"messages": []}, "messages", "must not be empty"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]}]},
         "messages[0].content[0].type", "'text'"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "messages", "the first message cannot be"),
        ({"top_logprobs": 99, "logprobs": True}, "top_logprobs", "is 99"),
        ({"tools": [{**NOW, "function": {"name": "a b"}}]}, "tools[0].function.name", "allowed: 1 to 64"),
        ({"tools": [NOW, {**NOW, "function": {"name": "b", "parameters": {"type": "a"}}}]},
         "tools[1].function.parameters", "has type 'a'"),
        ({"messages": [*SAID, {"role": "assistant", "tool_calls": [{"function": {"name": "", "arguments": "{}"}}]}]},
         "messages[2].tool_calls[0].function.name", "is empty"),
        ({"tool_choice": "required"}, "tool_choice", "there are no tools"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "colour"}}}},
         "response_format.json_schema.schema", ""),
        ({"json_schema": {"type": "colour"}}, "json_schema", ""),
        ({"regex": "a", "response_format": {"type": "json_object"}}, "response_format", "is given beside regex"),
        ({"lark": 'start: "a"', "tools": [NOW], "parallel_tool_calls": False}, "lark", "is set"),
        ({"add_generation_prompt": True, "continue_final_message": True}, "add_generation_prompt", "is true"),
        ({"functions": [{}]}, "functions", "is not supported"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(chat_client: openai.OpenAI, fields: dict[str, Any], name: str, said: str):
    with pytest.raises(openai.BadRequestError) as refused:
        chat_client.chat.completions.create(model=MODEL, messages=SAID, extra_body=fields)
    assert refused.value.param == name
    assert said in refused.value.message


def test_a_model_without_a_chat_template_says_so(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="target", messages=SAID)
    assert refused.value.param == "messages"
    assert "no chat template" in refused.value.message


def test_null_is_as_good_as_left_out(chat_gateway: RunningGateway):
    asked = {"messages": [{"role": "user", "content": "a"}], "seed": 5, "max_completion_tokens": 4}
    nulls = {"stream": None, "stream_options": {"include_usage": None}}
    plain, null = (chat_gateway.post("/v1/chat/completions", {**asked, **more}).json() for more in ({}, nulls))
    assert plain["choices"][0]["message"] == null["choices"][0]["message"]


def test_no_tokens_are_not_the_older_names_number(chat_gateway: RunningGateway):
    asked = {"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 0, "max_tokens": 4}
    assert chat_gateway.post("/v1/chat/completions", asked).status_code == 400


def test_candidates_need_logprobs(chat_gateway: RunningGateway):
    asked = {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2}
    assert chat_gateway.post("/v1/chat/completions", asked).json()["error"]["param"] == "top_logprobs"


@pytest.mark.parametrize("name", ["regex", "lark"])
def test_a_grammar_has_the_name_it_was_given_by(chat_gateway: RunningGateway, name: str):
    asked = {"messages": [{"role": "user", "content": "a"}], name: "("}
    assert chat_gateway.post("/v1/chat/completions", asked).json()["error"]["param"] == name
