"""Conversations with tools: the answer is bound as its request says, and read as a message, wherever it is cut."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import common_pb2, generation_pb2
from tests.harness.models.checkpoints import copy_of
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.chat_examples import NONE, REQUIRED, USE_CITY, USER, chat
from tests.rpc.harness.requests import Streamed, as_unary, continued, stream, stream_request, violations

ENDS: dict[str, Any] = {"stop": {"max_tokens": 300}}
REQUIRED_CALLS = {"tools": [USE_CITY, {"name": "now"}], "tool_choice": {"mode": REQUIRED}}


def deltas_of(streamed: Streamed) -> list[common_pb2.MessageDelta]:
    """All of an answer's."""
    return [*(delta for chunk in streamed.chunks for delta in chunk.message_deltas), *streamed.finished.message_deltas]


def told(deltas: list[common_pb2.MessageDelta]) -> tuple[str, str, list[tuple[str, str]]]:
    """The reasoning, the content and the calls in all; the parts of calls add up to them."""
    calls = [(delta.tool_call.name, delta.tool_call.arguments) for delta in deltas if delta.HasField("tool_call")]
    assert [delta.tool_call_name for delta in deltas if delta.HasField("tool_call_name")] == [name for name, _ in calls]
    assert "".join(delta.tool_call_arguments for delta in deltas) == "".join(arguments for _, arguments in calls)
    return "".join(delta.reasoning for delta in deltas), "".join(delta.content for delta in deltas), calls


def cuts_of(whole: Streamed) -> range:
    """Some in each part of an answer, an odd number of tokens apart."""
    return range(0, len(whole.token_ids) + 1, len(whole.token_ids) // 6 | 1)


def request_of(seed: int = 1, **fields: Any) -> Any:
    """A request whose answer the model's end token may end."""
    return stream_request(**{**chat(**fields), **ENDS, "sampling": {"seed": seed, "temperature": 0.7}})


@pytest.mark.parametrize("seed", range(3))
def test_required_calls_follow_their_schemas(target: RunningTarget, seed: int) -> None:
    _, content, calls = told(deltas_of(stream(target, request_of(seed, **REQUIRED_CALLS))))
    assert (content, calls != []) == ("", True)
    for name, text in calls:
        arguments = json.loads(text)
        if name == "now":
            assert arguments == {}
        else:
            assert name == "use_city"
            assert re.fullmatch("[A-Z][a-z]{2,5}", arguments["city"])
            assert arguments.get("days", 1) in (1, 2)


def test_every_cut_continues_with_the_next_delta(by_token: RunningTarget) -> None:
    """A continuation's prompt is ids: the grammar of its tools comes with `started`."""
    request = request_of(**REQUIRED_CALLS)
    whole = stream(by_token, request)
    assert len(told(deltas_of(whole))[2]) >= 1
    assert whole.started.grammar.lark
    for count in cuts_of(whole):
        rest = continued(request, whole, count)
        rest.grammar.CopyFrom(whole.started.grammar)
        streamed = stream(by_token, rest)
        before = [delta for chunk in whole.chunks[:count] for delta in chunk.message_deltas]
        assert told(before + deltas_of(streamed)) == told(deltas_of(whole))
        assert streamed.token_ids == whole.token_ids[count:]


def test_a_call_is_sent_while_it_is_generated(by_token: RunningTarget) -> None:
    whole = stream(by_token, request_of(tools=[USE_CITY], tool_choice={"mode": REQUIRED, "parallel": False}))
    sent = [[delta.WhichOneof("delta") for delta in chunk.message_deltas] for chunk in whole.chunks]
    kinds = [kind for kinds in sent for kind in kinds]
    ((_, arguments),) = told(deltas_of(whole))[2]
    assert (kinds[0], kinds[-1]) == ("tool_call_name", "tool_call")
    assert kinds.count("tool_call_arguments") > len(arguments) // 8


def test_a_call_that_is_cut_off_has_the_arguments_so_far(target: RunningTarget) -> None:
    request = request_of(tools=[USE_CITY], tool_choice={"mode": REQUIRED, "parallel": False})
    whole = stream(target, request)
    ((_, arguments),) = told(deltas_of(whole))[2]
    request.stop.max_tokens = len(whole.token_ids) - 8
    _, content, calls = told(deltas_of(stream(target, request)))
    ((name, begun),) = calls
    assert (content, name, begun) == ("", "use_city", arguments[: len(begun)])
    message = target.stub.Generate(as_unary(request), timeout=60).message
    assert [(call.name, call.arguments) for call in message.tool_calls] == calls


SHOWN = 'See <tool_call>{"name": "use_city", "arguments": {}}</tool_call> so. '


@pytest.mark.parametrize(
    "fields",
    [{}, {"tools": [USE_CITY], "tool_choice": {"mode": NONE}}, {"tools": [USE_CITY]}],
    ids=["without tools", "none", "a form beside tools"],
)
def test_text_that_shows_a_call_is_content_at_every_cut(by_token: RunningTarget, fields: dict[str, Any]) -> None:
    request = request_of(**fields)
    request.grammar.choice.texts.append(SHOWN)
    for token_id in by_token.engine.model.tokenizer.ids_beginning_with(b"<"):  # so that the form is taken, not a call
        request.sampling.logit_bias.add(token_id=token_id, bias=-100)
    whole = stream(by_token, request)
    assert (told(deltas_of(whole)), whole.text) == (("", SHOWN, []), SHOWN)
    for count in cuts_of(whole):
        rest = continued(request, whole, count)
        streamed = stream(by_token, rest)
        before = [delta for chunk in whole.chunks[:count] for delta in chunk.message_deltas]
        assert told(before + deltas_of(streamed)) == told(deltas_of(whole))


def test_a_call_may_come_instead_of_a_form(target: RunningTarget) -> None:
    request = request_of(tools=[USE_CITY])
    request.grammar.choice.texts.append(SHOWN.removeprefix("See "))
    _, content, calls = told(deltas_of(stream(target, request)))
    assert (content in ("", "so. "), {name for name, _ in calls}) == (True, {"use_city"})


@pytest.fixture(scope="module", params=["qwen3_coder", "glm", "harmony"])
def other_family(request: pytest.FixtureRequest, model: Path) -> Iterator[RunningTarget]:
    """A server whose model writes calls in another syntax, and that sends every token in a chunk of its own."""
    with target_server(model, parsers={"tool_parser": request.param}, stream_capacity=1) as running:
        yield running
        running.assert_all_free()


def test_typed_arguments_keep_their_schemas_after_every_cut(other_family: RunningTarget) -> None:
    request = request_of(tools=[USE_CITY], tool_choice={"mode": REQUIRED, "parallel": False})
    whole = stream(other_family, request)
    assert whole.reason == "FINISH_REASON_STOP_TOKEN"
    ((name, text),) = told(deltas_of(whole))[2]
    arguments = json.loads(text)
    assert name == "use_city"
    assert re.fullmatch("[A-Z][a-z]{2,5}", arguments["city"])
    assert arguments.get("days", 1) in (1, 2)
    for count in cuts_of(whole):
        rest = continued(request, whole, count)
        rest.grammar.CopyFrom(whole.started.grammar)
        streamed = stream(other_family, rest)
        before = [delta for chunk in whole.chunks[:count] for delta in chunk.message_deltas]
        assert told(before + deltas_of(streamed)) == told(deltas_of(whole))


def test_the_whole_message_can_be_appended_to_the_conversation(target: RunningTarget) -> None:
    request = request_of(**REQUIRED_CALLS)
    whole = target.stub.Generate(as_unary(request), timeout=60)
    assert not whole.finished.message_deltas
    assert [(call.name, call.arguments) for call in whole.message.tool_calls] == told(
        deltas_of(stream(target, request))
    )[2]
    request.prompt.chat.messages.append(whole.message)
    request.prompt.chat.messages.add(role="tool", content="12")
    request.prompt.chat.tool_choice.mode = common_pb2.TOOL_CHOICE_MODE_NONE
    answer = target.stub.Generate(as_unary(request), timeout=60)
    assert answer.message.content == answer.text
    assert not answer.started.HasField("grammar")


def test_without_marks_the_message_is_the_text(target: RunningTarget) -> None:
    plain = stream(target, stream_request())
    streamed = stream(target, stream_request(output={"message_deltas": True}))
    assert streamed.text == plain.text
    assert told(deltas_of(streamed)) == ("", plain.text, [])


def test_several_samples_are_read_one_by_one(target: RunningTarget) -> None:
    request = request_of(**REQUIRED_CALLS)
    request.num_samples = 2
    first = target.stub.Generate(as_unary(request), timeout=60)
    (second,) = first.further_samples
    request.num_samples = 1
    request.sampling.seed = second.started.seed
    assert second.message == target.stub.Generate(as_unary(request), timeout=60).message


@pytest.fixture(scope="module")
def unparsed(model: Path) -> Iterator[RunningTarget]:
    """A server that knows thoughts, but no calls."""
    with target_server(model, parsers={"tool_parser": "none", "reasoning_parser": "think"}) as running:
        yield running
        running.assert_all_free()


def test_a_server_that_knows_no_calls_binds_none(unparsed: RunningTarget) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stream(unparsed, request_of(**REQUIRED_CALLS))
    assert "--tool-parser" in violations(failure.value)["prompt.chat.tool_choice"]
    streamed = stream(unparsed, request_of(tools=[USE_CITY]))
    assert told(deltas_of(streamed)) == ("", streamed.text, [])


def test_a_template_for_tools_writes_prompts_and_shows_calls(model: Path, tmp_path: Path) -> None:
    folder = copy_of(model, tmp_path, chat_template="plain")
    (folder / "additional_chat_templates").mkdir()
    for_tools = "{% for tool in tools %}{{ tool.function.name }}<tool_call>{% endfor %} arguments"
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text(for_tools)
    with target_server(folder) as running:
        assert [running.server._servicer.serving().model.syntax.names[0]] == ["hermes"]
        texts = [
            b"".join(running.stub.Tokenize(generation_pb2.TokenizeRequest(chat=asked), timeout=60).token_bytes)
            for asked in (chat(tools=tools)["prompt"]["chat"] for tools in ([], [USE_CITY]))
        ]
    assert texts == [b"plain", b"use_city<tool_call> arguments"]


def test_an_answer_to_an_open_thought_is_reasoning(unparsed: RunningTarget) -> None:
    streamed = stream(unparsed, stream_request("a<think>b", output={"message_deltas": True}))
    assert told(deltas_of(streamed)) == (streamed.text.lstrip(), "", [])


FORM = {"type": "object", "properties": {"sky": {"enum": ["clear", "grey"]}}, "required": ["sky"]}
FORM |= {"additionalProperties": False, "x-guidance": {"whitespace_flexible": False}}
BESIDE_FORM: dict[str, dict[str, Any]] = {
    "auto": {"tools": [USE_CITY]},
    "strict": {"tools": [{**USE_CITY, "strict": True}]},
    "single": {"tools": [{**USE_CITY, "strict": True}], "tool_choice": {"parallel": False}},
}


@pytest.mark.parametrize("name", BESIDE_FORM)
@pytest.mark.parametrize(("avoided", "wanted"), [(b"<", "form"), (b"{", "calls")])
def test_beside_a_form_the_answer_is_calls_or_the_form(
    target: RunningTarget, name: str, avoided: bytes, wanted: str
) -> None:
    request = request_of(2, **BESIDE_FORM[name])
    request.grammar.json_schema = json.dumps(FORM)
    request.sampling.begin_suppress_token_ids.extend(target.engine.model.tokenizer.ids_beginning_with(avoided))
    _, content, calls = told(deltas_of(streamed := stream(target, request)))
    if wanted == "form":
        assert (json.loads(content)["sky"] in ("clear", "grey"), calls) == (True, [])
        return
    assert streamed.text.startswith('<tool_call>\n{"name": "')
    assert content == "" or streamed.reason == "FINISH_REASON_MAX_TOKENS"
    if name != "auto":
        arguments = [json.loads(text) for _, text in calls]
        assert arguments
        assert all(re.fullmatch("[A-Z][a-z]{2,5}", one["city"]) for one in arguments)


def test_a_form_has_no_effect_on_required_calls(target: RunningTarget) -> None:
    request = request_of(**REQUIRED_CALLS)
    plain = stream(target, request)
    request.grammar.regex = "a"
    assert stream(target, request).token_ids == plain.token_ids


UNHELD = {"name": "unheld", "parameters": '{"properties": {"a": {"const": 9007199254740993}}}'}


def test_strict_tools_that_cannot_be_held_are_named(target: RunningTarget) -> None:
    tools = [{**USE_CITY, "strict": True}, {**UNHELD, "strict": True}, UNHELD | {"name": "loose"}]
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, request_of(tools=tools))
    ((field, said),) = violations(failure.value).items()
    assert field == "prompt.chat.tools[1].parameters"
    assert "of 'unheld' cannot be followed: const has 9007199254740993" in said


def test_a_tool_that_cannot_be_held_refuses_no_other(target: RunningTarget) -> None:
    request = request_of(tools=[USE_CITY, UNHELD], tool_choice={"mode": REQUIRED, "parallel": False})
    lark = stream(target, request).started.grammar.lark
    assert "[A-Z][a-z]{2,5}" in lark
    assert "9007199254740993" not in lark


def test_bound_tools_leave_no_room_for_a_grammar_in_lark(target: RunningTarget) -> None:
    request = request_of(**BESIDE_FORM["strict"])
    request.grammar.lark = 'start: "a"'
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, request)
    assert [*violations(failure.value)] == ["grammar.lark"]


def test_a_form_that_cannot_be_held_is_named(target: RunningTarget) -> None:
    request = request_of(**BESIDE_FORM["strict"])
    request.grammar.regex = "(("
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, request)
    assert [*violations(failure.value)] == ["grammar.regex"]


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ("", "{}"),
        ("null", "{}"),
        ('{"a": 1', "{}"),
        ("[1]", "{}"),
        ("{" * 900, "{}"),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ('{"a": 1}', '{"a": 1}'),
    ],
)
def test_any_arguments_of_a_past_call_are_rendered(target: RunningTarget, written: str, rendered: str) -> None:
    call = {"role": "called", "tool_calls": [{"name": "f", "arguments": written}]}
    response = target.stub.Tokenize(generation_pb2.TokenizeRequest(chat=chat(USER, call)["prompt"]["chat"]), timeout=60)
    assert f'"arguments": {rendered}}}' in b"".join(response.token_bytes).decode()
