"""Messages by Anthropic's own client have the bytes of the RPC."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from outrider import Result
from services.gateway.anthropic.request import MessageRequest
from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway

if TYPE_CHECKING:
    import anthropic

MODEL = "llama-torch.float32"  # of the random checkpoint
SAMPLED: dict[str, Any] = {"model": MODEL, "max_tokens": 40, "extra_body": {"seed": 5, "temperature": 0.7}}
SAID: Any = [{"role": "user", "content": "A last-in, first-out stack"}]
BEGUN: Any = [{"role": "system", "content": "Be short."}, *SAID]
NOW: Any = {
    "name": "now",
    "input_schema": {"type": "object", "properties": {}, "additionalProperties": False},
}


RESULTS: Any = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name} for name in "ab"]}
CALL: Any = {"type": "tool_use", "id": "a", "name": "", "input": {}}
CALLED: Any = {"role": "assistant", "content": [{"type": "text", "text": "a"}, CALL]}


@pytest.fixture
def client(chat_gateway: RunningGateway) -> Iterator["anthropic.Anthropic"]:
    """Anthropic's own client."""
    import anthropic  # which takes seconds: no worker without these tests needs it

    with anthropic.Anthropic(base_url=chat_gateway.url, api_key="none", max_retries=0) as client:
        yield client


def rpc(gateway: RunningGateway, messages: Any, **options: Any) -> Result:
    with gateway.rpc() as client:
        sampled = {"temperature": 0.7, "seed": 5, "max_tokens": 40, "message_deltas": True}
        return client.generate(messages, **{**sampled, **options})


def test_one_seed_gives_the_bytes_of_the_rpc(client: "anthropic.Anthropic", chat_gateway: RunningGateway):
    expected = rpc(chat_gateway, BEGUN)
    assert expected.message is not None
    whole: Any = client.messages.create(system="Be short.", messages=SAID, **SAMPLED)
    assert [block.text for block in whole.content] == [expected.message.content]
    assert (whole.stop_reason, whole.usage.output_tokens) == ("max_tokens", 40)
    assert whole.usage.input_tokens + whole.usage.cache_read_input_tokens == expected.usage.prompt_tokens
    with client.messages.stream(system="Be short.", messages=SAID, **SAMPLED) as stream:
        assert "".join(stream.text_stream) == expected.message.content
    final: Any = stream.get_final_message()
    assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 40)


@pytest.mark.parametrize("number", ["1e400", "-2E+999", "12345678901234567890"])
def test_numbers_of_a_call_stay_as_the_model_writes_them(chat_gateway: RunningGateway, number: str):
    arguments = f'{{"n": [{number}, 1.5]}}'
    call = json.dumps(f'<tool_call>\n{{"name": "now", "arguments": {arguments}}}\n</tool_call>')
    asked = {"model": MODEL, "max_tokens": 200, "messages": SAID, "tools": [NOW], "lark": f"start: {call}"}
    asked |= {"max_thinking_tokens": 4, "seed": 5}
    whole = chat_gateway.post("/v1/messages", asked)
    assert whole.status_code == 200
    assert f'"input":{{"n":[{number},1.5]}}' in whole.text
    streamed = read_events([*chat_gateway.post("/v1/messages", {**asked, "stream": True}).text.splitlines(), ""])
    deltas = [event.data["delta"] for event in streamed if event.name == "content_block_delta"]
    assert "".join(delta.get("partial_json", "") for delta in deltas) == arguments


def test_calls_are_blocks_and_go_back(client: "anthropic.Anthropic", chat_gateway: RunningGateway):
    tool = {"name": "now", "parameters": NOW["input_schema"]}
    expected = rpc(chat_gateway, BEGUN, max_tokens=200, tools=[tool], tool_choice="required").message
    assert expected is not None
    asked: Any = {**SAMPLED, "system": "Be short.", "max_tokens": 200, "tools": [NOW], "tool_choice": {"type": "any"}}
    whole: Any = client.messages.create(messages=SAID, **asked)
    with client.messages.stream(messages=SAID, **asked) as stream:
        streamed: Any = stream.get_final_message()
    assert whole.stop_reason == streamed.stop_reason == "tool_use"
    for message in (whole, streamed):
        assert [block.name for block in message.content] == [call.name for call in expected.tool_calls]
        assert [block.input for block in message.content] == [{} for _ in expected.tool_calls]
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "12"} for block in whole.content]
    told: Any = [*SAID, {"role": "assistant", "content": whole.content}, {"role": "user", "content": results}]
    # The ids of calls are random, and after some of them the model would end at once.
    goes_on = {**SAMPLED["extra_body"], "ignore_eos": True}
    after = client.messages.create(messages=told, **{**asked, "tool_choice": {"type": "none"}, "extra_body": goes_on})
    assert after.content[0].type == "text"


def test_the_assistants_last_message_is_continued(client: "anthropic.Anthropic", chat_gateway: RunningGateway):
    said: Any = [*SAID, {"role": "assistant", "content": "<think>so"}]
    expected = rpc(chat_gateway, said, continue_final_message=True).message
    assert expected is not None
    assert expected.reasoning_content
    whole: Any = client.messages.create(messages=said, **SAMPLED)
    assert [(block.type, block.thinking) for block in whole.content] == [("thinking", expected.reasoning_content)]


def test_a_stop_sequence_is_reported(client: "anthropic.Anthropic", chat_gateway: RunningGateway):
    stop = re.findall("[a-z]{4}", rpc(chat_gateway, SAID).text)[-1]
    whole = client.messages.create(messages=SAID, stop_sequences=[stop], **SAMPLED)
    assert (whole.stop_reason, whole.stop_sequence) == ("stop_sequence", stop)


def test_tokens_are_counted_as_a_message_has_them(client: "anthropic.Anthropic"):
    import anthropic

    asked: Any = {"messages": SAID, "system": "Be short.", "tools": [NOW]}
    count = client.messages.count_tokens(model=MODEL, **asked)
    usage: Any = client.messages.create(**asked, **SAMPLED).usage
    assert count.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    assert client.messages.count_tokens(model=MODEL, messages=SAID).input_tokens < count.input_tokens
    with pytest.raises(anthropic.BadRequestError, match=r"tools\[0\]\.input_schema: has type 'a'"):
        client.messages.count_tokens(model=MODEL, messages=SAID, tools=[{**NOW, "input_schema": {"type": "a"}}])


def test_json_follows_the_output_format(client: "anthropic.Anthropic"):
    schema = {"enum": ["red", "green"]}
    wanted = {"type": "json_schema", "schema": schema}
    for fields in ({"output_config": {"format": wanted}}, {"output_format": wanted}):
        answer: Any = client.messages.create(
            messages=SAID, **{**SAMPLED, "extra_body": {**fields, "reasoning_marks": []}}
        )
        assert json.loads(answer.content[0].text) in ("red", "green")


def test_the_effort_is_a_variable_of_the_template():
    template = [{"role": "user", "content": "a"}]
    requests = ({"output_config": {"effort": "low"}}, {"template_variables": {"reasoning_effort": "low"}})
    asked = [MessageRequest.model_validate({"messages": template, "max_tokens": 1, **fields}) for fields in requests]
    assert asked[0].chat_options() == asked[1].chat_options()


def test_fields_of_anthropics_service_are_passed_over(chat_gateway: RunningGateway):
    tool = {
        **NOW, "type": "custom", "cache_control": {"type": "ephemeral"}, "defer_loading": False, "strict": False,
        "eager_input_streaming": True, "input_examples": [{}], "allowed_callers": ["direct"], "unknown": None,
    }  # fmt: skip
    fields = {
        "metadata": {"user_id": "a"}, "service_tier": "auto", "inference_geo": "eu", "speed": "standard",
        "betas": ["a"], "cache_control": {"type": "ephemeral"}, "container": None, "mcp_servers": [],
        "context_management": {"edits": []}, "thinking": {"type": "adaptive", "display": "summarized"},
    }  # fmt: skip
    plain = {"model": MODEL, "messages": SAID, "tools": [NOW]}
    for path, more in (("/v1/messages", {"max_tokens": 20, "seed": 5}), ("/v1/messages/count_tokens", {})):
        ours, theirs = (
            chat_gateway.post(path, {**plain, **more, **others}) for others in ({}, {**fields, "tools": [tool]})
        )
        assert theirs.status_code == 200, theirs.text
        for name in ("content", "input_tokens"):
            assert ours.json().get(name) == theirs.json().get(name)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_tokens": 0}, "max_tokens: is 0"),
        ({"mcp_servers": [{"url": "a"}]}, "mcp_servers: is not supported"),
        ({"container": "a"}, "container: is not supported"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "a"}}}},
         "output_config.format.schema: "),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}, "regex": "a"},
         "output_config.format: is given beside regex"),
        ({"stop_sequences": [""]}, "stop_sequences[0]: has 0 bytes"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
        ({"tools": [NOW, {"name": "b", "input_schema": {"type": "a"}}]}, "tools[1].input_schema: has type 'a'"),
        ({"tools": [NOW], "tool_choice": {"type": "tool", "name": "b"}}, "tool_choice.name: is 'b'"),
        ({"tools": [NOW], "tool_choice": {"type": "tool"}}, "tool_choice.name: has to be given"),
        ({"tools": [NOW], "tool_choice": {"type": "any", "name": "now"}}, "tool_choice.name: has to be given"),
        ({"tool_choice": {"type": "any"}}, "tool_choice.type: "),
        ({"system": "a", "messages": [*SAID, CALLED]}, "messages[1].content[1].name: is empty"),
        ({"messages": [*SAID, RESULTS, CALLED]}, "messages[2].content[1].name: is empty"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(client: "anthropic.Anthropic", fields: dict[str, Any], said: str):
    import anthropic

    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(messages=SAID, **{**SAMPLED, "extra_body": fields})
    body: Any = refused.value.body
    assert body["error"]["type"] == "invalid_request_error"
    assert said in body["error"]["message"]
