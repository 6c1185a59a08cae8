"""Responses by OpenAI's own client have the bytes of the RPC, in events that make the whole."""

import json
from dataclasses import replace
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict

from outrider import FinishReason, Result
from services.gateway.generation.head import Head, Ticket
from services.gateway.openai.finish import finish_reason
from services.gateway.openai.responses.request import ResponseRequest
from services.gateway.openai.responses.writer import ResponseWriter
from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway

MODEL = "llama-torch.float32"  # of the random checkpoint
TEXT = "A last-in, first-out stack"
SAMPLED: dict[str, Any] = {"temperature": 0.7, "max_output_tokens": 40, "extra_body": {"seed": 5}}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
NOW: Any = {"type": "function", "name": "now", "strict": False, "parameters": NOTHING}


SAID: Any = {"role": "user", "content": "a"}
CALLED: Any = {"type": "function_call", "call_id": "c", "name": "now", "arguments": "{}"}


class Colour(BaseModel):
    """What an answer is parsed as."""

    model_config = ConfigDict(extra="forbid")
    name: Literal["red", "green", "blue"]
    is_dark: bool


def rpc(gateway: RunningGateway, messages: Any, **options: Any) -> Result:
    with gateway.rpc() as client:
        sampled = {"temperature": 0.7, "seed": 5, "max_tokens": 40, "message_deltas": True}
        return client.generate(messages, **{**sampled, **options})


def test_one_seed_gives_the_bytes_of_the_rpc(chat_client: openai.OpenAI, chat_gateway: RunningGateway):
    said = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "a"}]
    expected = rpc(chat_gateway, said).message
    assert expected is not None
    asked: dict[str, Any] = {"model": MODEL, "instructions": "Be short.", "input": "a", **SAMPLED}
    whole = chat_client.responses.create(**asked)
    assert (whole.output_text, whole.status) == (expected.content, "incomplete")
    with chat_client.responses.stream(**asked) as stream:
        events = list(stream)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == expected.content
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == expected.content


@pytest.mark.parametrize("stream", [False, True])
def test_calls_are_items_and_go_back(chat_client: openai.OpenAI, chat_gateway: RunningGateway, stream: bool):
    said = [{"role": "system", "content": "Be short."}, {"role": "user", "content": TEXT}]
    tool = {"name": "now", "strict": False, "parameters": NOW["parameters"]}
    asked: Any = {"model": MODEL, "instructions": "Be short.", "tools": [NOW], **SAMPLED, "max_output_tokens": 200}
    expected = rpc(chat_gateway, said, max_tokens=200, tools=[tool], tool_choice="required").message
    assert expected is not None
    if stream:
        with chat_client.responses.stream(input=TEXT, tool_choice="required", **asked) as events:
            answer: Any = events.get_final_response()
    else:
        answer = chat_client.responses.create(input=TEXT, tool_choice="required", **asked)
    calls = [item for item in answer.output if item.type == "function_call"]
    assert [(one.name, one.arguments) for one in calls] == [(one.name, one.arguments) for one in expected.tool_calls]
    assert calls
    outputs = [{"type": "function_call_output", "call_id": one.call_id, "output": "12"} for one in calls]
    told = [said[1], *(item.to_dict() for item in answer.output), *outputs]
    after = chat_client.responses.create(input=told, tool_choice="none", **asked)
    assert after.output[0].type == "message"


def test_the_message_has_logprobs_of_all_tokens(chat_client: openai.OpenAI, chat_gateway: RunningGateway):
    expected = rpc(chat_gateway, [{"role": "user", "content": TEXT}], top_candidates=2)
    include: Any = ["message.output_text.logprobs"]
    asked: Any = {"model": MODEL, "input": TEXT, "include": include, "top_logprobs": 2, **SAMPLED}
    (message,) = chat_client.responses.create(**asked).output
    with chat_client.responses.stream(**asked) as stream:
        events: Any = [*stream]
    (streamed,) = events[-1].response.output
    told = message.content[0].logprobs
    assert [one.logprob for one in told] == [token.raw_logprob for token in expected.tokens]
    assert [bytes(one.bytes) for one in told] == [token.bytes for token in expected.tokens]
    assert [len(one.top_logprobs) for one in told] == [2] * len(told)
    assert streamed.content[0].logprobs == told
    grown = [one for event in events if event.type == "response.output_text.delta" for one in event.logprobs]
    assert [one.token for one in grown] == [one.token for one in told][: len(grown)]
    assert len(grown) > len(told) // 2


def test_json_is_parsed(chat_client: openai.OpenAI):
    said: Any = [{"role": "system", "content": "Be short."}, {"role": "user", "content": TEXT}]
    asked: Any = {**SAMPLED, "max_output_tokens": 200}
    answer = chat_client.responses.parse(model=MODEL, input=said, text_format=Colour, **asked)
    assert answer.output_parsed is not None
    assert answer.output_parsed.name in ("red", "green", "blue")


def test_a_stream_continues_after_any_event(chat_gateway: RunningGateway):
    """Thoughts, then calls: the events that follow are those that would have followed but for their cuts."""
    plain = {"input": TEXT, "instructions": "Be short.", "max_output_tokens": 100, "seed": 5, "stream": True}
    called = {**plain, "tools": [NOW], "tool_choice": "required", "temperature": 0.7}
    for asked in (called, plain):
        events = list(read_events([*chat_gateway.post("/v1/responses", asked).text.splitlines(), ""]))
        for cut in range(1, len(events), 1 + len(events) // 4):
            headers = {"last-event-id": events[cut - 1].id}
            answer = chat_gateway.post("/v1/responses", asked, headers=headers)
            rest = list(read_events([*answer.text.splitlines(), ""]))
            numbers = [event.data["sequence_number"] for event in [*events[:cut], *rest]]
            assert numbers == [*range(len(numbers))]
            assert without_deltas([*events[:cut], *rest]) == without_deltas(events)


def without_deltas(events: list[Any]) -> list[str]:
    """What remains of events where neither cuts nor figures matter."""
    seen, text = [], ""
    for event in events:
        data = {name: value for name, value in event.data.items() if name != "sequence_number"}
        if event.name.endswith(".delta"):
            text += data["delta"]
            continue
        if "response" in data:
            data["response"] = {name: data["response"][name] for name in ("id", "status", "output", "created_at")}
        seen.append(json.dumps(data))
    return [*seen, text]


@pytest.mark.parametrize("stream", [False, True])
def test_an_item_that_is_cut_is_incomplete(chat_client: openai.OpenAI, stream: bool):
    asked: dict[str, Any] = {"model": MODEL, "input": "a", **SAMPLED}
    if stream:
        with chat_client.responses.stream(**asked) as events:
            *_, done, last = events
        answer, ended = last.response, [done.item.status]
    else:
        answer, ended = chat_client.responses.create(**asked), []
    assert {answer.status, *(item.status for item in answer.output), *ended} == {"incomplete"}


def test_an_item_of_a_whole_answer_is_completed(chat_client: openai.OpenAI):
    answer = chat_client.responses.create(
        model=MODEL, input="a", extra_body={"regex": "Yes|No", "reasoning_marks": [], "seed": 5}
    )
    assert (answer.status, answer.output[0].status) == ("completed", "completed")


def test_an_empty_streamed_answer_has_an_announced_item(chat_gateway: RunningGateway):
    full = rpc(chat_gateway, [SAID])
    assert full.message is not None
    result = replace(full, text="", finish_reason=FinishReason.STOP_TOKEN, message=replace(full.message, content=""))
    writer = ResponseWriter(ResponseRequest(input="a"), Head(Ticket.new(5), (full.started,), 1))
    events = [*writer.end(0, result), *writer.tail([result])]
    added = [event.data["item"]["id"] for event in events if event.name == "response.output_item.added"]
    done = [event.data["item"] for event in events if event.name == "response.output_item.done"]
    assert [item["id"] for item in done] == added
    assert done == events[-1].data["response"]["output"] != []


def test_fields_of_openais_service_are_passed_over(chat_gateway: RunningGateway):
    fields = {
        "truncation": "auto", "stream_options": {"include_obfuscation": False}, "client_metadata": {"a": "b"},
        "max_tool_calls": 3, "prompt_cache_key": "a", "conversation": None, "prompt": None, "background": False,
        "store": True, "include": ["reasoning.encrypted_content", "web_search_call.action.sources"], "unknown": None,
        "reasoning": {"summary": "auto", "generate_summary": None}, "context_management": [],
        "text": {"verbosity": "low"}, "safety_identifier": "a",
    }  # fmt: skip
    tool = {**NOW, "defer_loading": False, "unknown": None}
    asked = {"model": MODEL, "input": "a", "seed": 5, "max_output_tokens": 20, "tools": [NOW]}
    ours, theirs = (chat_gateway.post("/v1/responses", {**asked, **more}) for more in ({}, {**fields, "tools": [tool]}))
    assert theirs.status_code == 200, theirs.text
    assert ours.json()["output"][0]["content"] == theirs.json()["output"][0]["content"]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"include": ["message.output_text.logprobs"], "tools": [NOW]}, "include"),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 5000}, "top_logprobs"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": []}, "input"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"input": [{"type": "item_reference", "id": "a"}]}, "input[0].type"),
        ({"instructions": "a", "input": [SAID, CALLED, {**CALLED, "name": ""}]}, "input[2].name"),
        ({"tools": [NOW], "tool_choice": {"type": "function", "name": "b"}}, "tool_choice.name"),
        ({"regex": "a", "text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "a"}}}}, "text.format.schema"),
    ],
)
def test_a_bad_field_is_named(chat_client: openai.OpenAI, fields: dict[str, Any], name: str):
    with pytest.raises(openai.BadRequestError) as refused:
        chat_client.responses.create(model=MODEL, input="a", extra_body=fields)
    assert refused.value.param == name


def test_messages_and_calls_of_the_input_become_a_prompt():
    call = {"type": "function_call", "call_id": "c", "name": "now", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "12"}
    said = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "A"), ("assistant", "B"))]
    asked = ResponseRequest.model_validate({"input": [*said[:2], call, said[2], output]})
    called = [{"id": "c", "function": {"name": "now", "arguments": "{}"}}]
    assert asked.prompts() == (
        [said[0], {**said[1], "tool_calls": called}, said[2], {"role": "tool", "tool_call_id": "c", "content": "12"}],
    )
    assert ResponseRequest.model_validate({"input": said}).prompts() == (said,)


def test_an_answer_with_invalid_logits_has_failed(chat_gateway: RunningGateway):
    result = replace(rpc(chat_gateway, [SAID]), finish_reason=FinishReason.INVALID_LOGITS)
    writer = ResponseWriter(ResponseRequest(input="a"), Head(Ticket.new(5), (result.started,), 1))
    (last,) = writer.tail([result])
    assert (last.name, last.data["response"]["status"]) == ("response.failed", "failed")
    assert last.data["response"]["error"]["code"] == "server_error"
    assert finish_reason(result) == "error"
