"""A required call of the demo model is the same with predictions, without, and after a restart in its middle."""

import json
import re
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import pytest

from outrider import Client, Message, Result, ToolCall
from outrider.request import build_stream_request
from outrider.v1.generation_pb2 import Chunk, Finished
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.harness.models.checkpoints import copy_of
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import drafted_target
from tests.rpc.harness.requests import continued, stream

TEMPLATE = """
{%- if tools %}<tools>{{ tools | tojson }}</tools>{% endif -%}
{%- for message in messages %}
{{ message.role }}: {{ message.content }}
{%- for call in message.tool_calls or () -%}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}
{%- endfor %}
{% if add_generation_prompt %}assistant: {% endif -%}
"""
NAME = {"type": "string", "pattern": "^[a-z_]{3,12}$"}
TOOLS = [
    {
        "name": "define_function",
        "description": "Writes a Python function.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": NAME,
                "arguments": {"type": "array", "items": NAME, "maxItems": 3},
                "returns": {"enum": ["int", "str", "None"]},
            },
            "required": ["name", "arguments", "returns"],
            "additionalProperties": False,
        },
    },
    {"name": "stop"},
]
QUESTION = [Message("user", "Write a function that adds two numbers.")]
_MOST_TRIES = 10  # a short answer may end before a busy draft has compiled the grammar


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo target with a chat template that knows of tools."""
    return copy_of(DEMO_TARGET, tmp_path_factory.mktemp("demo"), chat_template=TEMPLATE)


@pytest.fixture(scope="module")
def drafted(folder: Path) -> Iterator[RunningTarget]:
    """A target with a draft, which sends every token by itself."""
    with drafted_target(folder, DEMO_DRAFT, stream_capacity=1) as running:
        yield running
        running.assert_all_free()


def asked(target: RunningTarget, **options: Any) -> Result:
    """The answer to the question, which has to be a call."""
    with Client(target.address) as client:
        settings = {"tools": TOOLS, "tool_choice": "required", "seed": 3, "max_tokens": 200, "message_deltas": True}
        return client.generate(QUESTION, **{**settings, **options})


def check(call: ToolCall) -> None:
    """It is one of the tools' calls, and follows its schema."""
    arguments = json.loads(call.arguments)
    if call.name == "stop":
        assert arguments == {}
    else:
        assert call.name == "define_function"
        assert arguments.keys() == {"name", "arguments", "returns"}
        assert arguments["returns"] in {"int", "str", "None"}
        assert len(arguments["arguments"]) <= 3
        assert all(re.fullmatch("[a-z_]{3,12}", name) for name in (arguments["name"], *arguments["arguments"]))


def called(messages: Seq[Chunk | Finished]) -> list[tuple[str, str]]:
    """The calls that the deltas add up to."""
    deltas = [delta for message in messages for delta in message.message_deltas]
    return [(delta.tool_call.name, delta.tool_call.arguments) for delta in deltas if delta.HasField("tool_call")]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_predictions_change_no_call(drafted: RunningTarget, temperature: float) -> None:
    options = {"tool_choice": "define_function", "temperature": temperature}
    plain = asked(drafted, **options, speculation="never")
    for _ in range(_MOST_TRIES):
        predicted = asked(drafted, **options, speculation="always", num_predictions=4)
        assert predicted.message == plain.message
        assert predicted.token_ids == plain.token_ids
        if predicted.speculation.accepted > 0:
            break
    else:
        pytest.fail("the draft was never right")
    assert plain.message is not None
    (call,) = plain.message.tool_calls
    check(call)


def test_several_calls_follow_their_schemas(drafted: RunningTarget) -> None:
    message = asked(drafted, temperature=1.0).message
    assert message is not None
    assert not message.content
    assert len(message.tool_calls) > 1
    for call in message.tool_calls:
        check(call)


def test_a_restart_amid_a_call_changes_nothing(drafted: RunningTarget, folder: Path) -> None:
    """The second server has no draft; it gets the ids received, and the grammar that the first one made."""
    options = {"tools": TOOLS, "tool_choice": "define_function", "seed": 3, "max_tokens": 200, "message_deltas": True}
    request = build_stream_request(QUESTION, options)
    request.output.prompt_token_ids = True
    whole = stream(drafted, request)
    with target_server(folder) as second:
        for num_chunks in (1, len(whole.chunks) // 2, len(whole.chunks) - 1):
            before = whole.chunks[:num_chunks]
            count = sum(len(chunk.token_ids) for chunk in before)
            rest = continued(request, whole, count)
            rest.grammar.CopyFrom(whole.started.grammar)
            streamed = stream(second, rest)
            assert streamed.token_ids == whole.token_ids[count:]
            assert called([*before, *streamed.chunks, streamed.finished]) == called([*whole.chunks, whole.finished])
            assert len(called(whole.chunks)) == 1
