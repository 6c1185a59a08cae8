"""Earlier messages as other programs and servers write them make the same prompt as those without their extras."""

from typing import Any

import httpx2
import pytest

from outrider import Result
from tests.gateway.harness.running_gateway import RunningGateway

USER: Any = {"role": "user", "content": "Which?"}
CALL: Any = {"id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}
PLAIN: list[Any] = [
    USER,
    {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "one\ntwo"},
    {"role": "assistant", "content": "So.\nNo."},
    USER,
]
VARIABLES = {"template_variables": {"enable_thinking": True}}
SAMPLED: dict[str, Any] = {"temperature": 0.7, "seed": 5}

_CHAT_CALL = {**CALL, "type": "function", "index": 0, "extra_content": {"google": {"thought_signature": "x"}}}
CHATS: dict[str, list[Any]] = {
    "litellm": [
        USER,
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}],
            "provider_specific_fields": {"refusal": None},
            "tool_calls": [_CHAT_CALL],
            "function_call": None,
        },
        {"role": "tool", "tool_call_id": "c1", "name": None, "content": [{"type": "text", "text": "one\ntwo"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "So.", "cache_control": {"type": "ephemeral"}},
                {"type": "refusal", "refusal": "No."},
            ],
            "refusal": None,
            "audio": None,
            "annotations": [],
            "id": "msg_1",
        },
        USER,
    ],
    "OpenRouter": [
        {**USER, "id": "m"},
        {
            "role": "assistant",
            "reasoning": "Hm.",
            "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}],
            "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {"a": 1}}}],
        },
        PLAIN[2],
        {**PLAIN[3], "reasoning": None, "refusal": "none", "audio": {"id": "a"}},
        USER,
    ],
}


def rpc(gateway: RunningGateway, **options: Any) -> Result:
    with gateway.rpc() as client:
        return client.generate(PLAIN, max_tokens=20, message_deltas=True, **VARIABLES, **SAMPLED, **options)


def asked(gateway: RunningGateway, path: str, body: dict[str, Any]) -> Any:
    answer = gateway.post(path, {**body, **VARIABLES, **SAMPLED})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", CHATS)
def test_messages_of_other_servers(chat_gateway: RunningGateway, name: str):
    expected = rpc(chat_gateway)
    answer = asked(chat_gateway, "/v1/chat/completions", {"messages": CHATS[name], "max_tokens": 20})
    assert answer["usage"]["prompt_tokens"] == expected.usage.prompt_tokens
    assert answer["choices"][0]["message"]["content"] == expected.message.content


def test_the_older_form_of_calls(chat_gateway: RunningGateway):
    call = {"name": "f", "arguments": '{"a": 1}'}
    old: list[Any] = [USER, {"role": "assistant", "content": None, "function_call": call}]
    old += [{"role": "function", "name": "f", "content": "one"}, USER]
    new: list[Any] = [USER, {"role": "assistant", "tool_calls": [{"function": call}]}]
    new += [{"role": "tool", "name": "f", "content": "one"}, USER]
    answers = [
        asked(chat_gateway, "/v1/chat/completions", {"messages": messages, "max_tokens": 20}) for messages in (old, new)
    ]
    assert answers[0]["choices"][0]["message"] == answers[1]["choices"][0]["message"]
    assert answers[0]["usage"]["prompt_tokens"] == answers[1]["usage"]["prompt_tokens"]


def test_items_of_other_responses(chat_gateway: RunningGateway):
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Which?", "phase": "x"}]},
        {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
        | {"encrypted_content": "gAAA", "format": "x"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}', "phase": "commentary"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}],
        },
        {
            "type": "message",
            "role": "assistant",
            "phase": "final_answer",
            "content": [
                {"type": "output_text", "text": "So.", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {"role": "user", "content": "Which?"},
    ]
    expected = rpc(chat_gateway)
    answer = asked(chat_gateway, "/v1/responses", {"input": items, "max_output_tokens": 20})
    usage = answer["usage"]
    assert usage["input_tokens"] == expected.usage.prompt_tokens
    assert answer["output"][0]["content"][0]["text"] == expected.message.content


def test_blocks_of_other_messages(chat_gateway: RunningGateway):
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Which?", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "is_error": False,
                    "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two", "citations": []}],
                }
            ],
        },
        {"role": "assistant", "content": "So.\nNo."},
        {"role": "user", "content": "Which?"},
    ]
    expected = rpc(chat_gateway)
    answer = asked(chat_gateway, "/v1/messages", {"messages": messages, "max_tokens": 20})
    (block,) = answer["content"]
    assert block["text"] == expected.message.content


@pytest.mark.parametrize("arguments", ["", None, "null", '{"a": ', '"{}"'])
def test_calls_that_cannot_be_parsed_have_no_arguments(chat_gateway: RunningGateway, arguments: str | None):
    def answered(arguments: str | None) -> Any:
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        messages = [USER, {"role": "assistant", "tool_calls": [call]}, PLAIN[2]]
        return asked(chat_gateway, "/v1/chat/completions", {"messages": messages, "max_tokens": 5})

    answers = [answered(one) for one in (arguments, "{}")]
    assert answers[0]["choices"] == answers[1]["choices"]
    assert answers[0]["usage"]["prompt_tokens"] == answers[1]["usage"]["prompt_tokens"]


def test_a_picture_in_an_earlier_message_is_refused(chat_gateway: RunningGateway):
    picture = {"type": "image_url", "image_url": {"url": "data:"}}
    body = {"messages": [{"role": "user", "content": [picture]}, *PLAIN]}
    answer = chat_gateway.post("/v1/chat/completions", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[0].content[0].type"


def test_fields_without_effect_are_counted(chat_gateway: RunningGateway):
    def count(name: str) -> float:
        page = httpx2.get(f"{chat_gateway.url}/metrics").text
        line = f'outrider_gateway_history_fields_passed_over_total{{field="{name}"}} '
        return sum(float(one.removeprefix(line)) for one in page.splitlines() if one.startswith(line))

    before = count("some_extra")
    messages = [{**USER, "some_extra": 1, "null_extra": None}]
    asked(chat_gateway, "/v1/chat/completions", {"messages": messages, "max_tokens": 5})
    assert (count("some_extra") - before, count("null_extra")) == (1, 0)
    messages = [{**USER, **{f"extra_{number}": 1 for number in range(100)}}]
    asked(chat_gateway, "/v1/chat/completions", {"messages": messages, "max_tokens": 5})
    assert count("other") >= 36
    messages = [{**USER, "x" * 5000: 1}]
    asked(chat_gateway, "/v1/chat/completions", {"messages": messages, "max_tokens": 5})
    assert len(httpx2.get(f"{chat_gateway.url}/metrics").text) < 20_000
