"""Calls are streamed while they are generated, and add up to those of the whole answer, also if they are cut off."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import openai
import pytest

from outrider.v1 import common_pb2, generation_pb2
from tests.gateway.harness.events import SentEvent, read_events
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import Request, ScriptedServer, ScriptedServicer

SAID: Any = [{"role": "user", "content": "a"}]
F, G = '{"a": "bcd efg", "n": [1, 2.50]}', "{}"
SCRIPT: list[tuple[str, Any]] = [
    ("reasoning", "Hm."),
    ("content", "I look."),
    ("tool_call_name", "f"),
    *(("tool_call_arguments", F[start : start + 3]) for start in range(0, len(F), 3)),
    ("tool_call", common_pb2.ToolCall(name="f", arguments=F)),
    ("tool_call_name", "g"),
    ("tool_call_arguments", G),
    ("tool_call", common_pb2.ToolCall(name="g", arguments=G)),
]
CUTS = [4, 7, 9, 12]  # tokens, so that the first call is cut off
DOORS = {
    "/v1/chat/completions": ({"messages": SAID}, "max_tokens"),
    "/v1/responses": ({"input": "a"}, "max_output_tokens"),
    "/v1/messages": ({"messages": SAID}, "max_tokens"),
}


class CallingServicer(ScriptedServicer):
    """Each token adds one delta of a message."""

    def _chunk(self, request: Request, whole: list[int], start: int, end: int) -> generation_pb2.Chunk:
        deltas = [common_pb2.MessageDelta(**{kind: value}) for kind, value in SCRIPT[start:end]]
        return generation_pb2.Chunk(token_ids=whole[start:end], message_deltas=deltas)

    def _finished(self, request: Request, prompt: list[int], whole: list[int]) -> generation_pb2.Finished:
        finished = super()._finished(request, prompt, whole)
        if len(whole) in CUTS:
            begun = "".join(value for kind, value in SCRIPT[: len(whole)] if kind == "tool_call_arguments")
            finished.message_deltas.add(tool_call=common_pb2.ToolCall(name="f", arguments=begun))
        return finished


class MalformedServicer(CallingServicer):
    """A call that was begun ends early, and the answer ends by itself."""

    def _finished(self, request: Request, prompt: list[int], whole: list[int]) -> generation_pb2.Finished:
        finished = super()._finished(request, prompt, whole)
        finished.reason = common_pb2.FINISH_REASON_STOP_TOKEN
        return finished


@pytest.fixture(scope="module")
def calling() -> Iterator[RunningGateway]:
    """A gateway in front of a target that calls two tools."""
    with ScriptedServer(servicer_type=CallingServicer) as server, RunningGateway(server.address) as running:
        yield running


def events_of(gateway: RunningGateway, path: str, most: int, last: str | None = None) -> list[SentEvent]:
    body, limit = DOORS[path]
    headers = {} if last is None else {"last-event-id": last}
    asked = {**body, limit: most, "stream": True, "seed": 5}
    return list(read_events([*gateway.post(path, asked, headers=headers).text.splitlines(), ""]))


def test_a_chat_has_the_name_first_then_the_arguments(calling: RunningGateway):
    choices = [event.data["choices"][0]["delta"] for event in events_of(calling, "/v1/chat/completions", 99)]
    calls = [call for delta in choices for call in delta.get("tool_calls", ())]
    begun = [call for call in calls if "id" in call]
    assert [(call["index"], call["type"], call["function"]) for call in begun] == [
        (0, "function", {"name": "f", "arguments": ""}),
        (1, "function", {"name": "g", "arguments": ""}),
    ]
    more = [(call["index"], call["function"]["arguments"]) for call in calls if call not in begun]
    assert more == [*((0, value) for kind, value in SCRIPT[3:-4]), (1, "{}")]
    assert all(set(call) == {"index", "function"} for call in calls if call not in begun)


def test_a_response_has_an_item_and_its_arguments(calling: RunningGateway):
    events = [event for event in events_of(calling, "/v1/responses", 99) if event.data.get("output_index") == 2]
    added, *deltas, done, item = events
    assert added.name == "response.output_item.added"
    assert (added.data["item"]["name"], added.data["item"]["arguments"]) == ("f", "")
    assert {event.name for event in deltas} == {"response.function_call_arguments.delta"}
    assert [event.data["delta"] for event in deltas] == [value for _, value in SCRIPT[3:-4]]
    assert (done.name, done.data["arguments"]) == ("response.function_call_arguments.done", F)
    assert item.name == "response.output_item.done"
    assert (item.data["item"]["status"], item.data["item"]["arguments"]) == ("completed", F)


def test_a_message_has_a_block_and_its_arguments(calling: RunningGateway):
    start, *deltas, stop = [event for event in events_of(calling, "/v1/messages", 99) if event.data.get("index") == 2]
    block = start.data["content_block"]
    assert (start.name, block["type"], block["name"], block["input"]) == ("content_block_start", "tool_use", "f", {})
    assert [event.data["delta"] for event in deltas] == [
        {"type": "input_json_delta", "partial_json": value} for _, value in SCRIPT[3:-4]
    ]
    assert stop.name == "content_block_stop"


@pytest.mark.parametrize("path", DOORS)
def test_a_stream_continues_after_any_event(calling: RunningGateway, path: str):
    events = events_of(calling, path, 99)
    for cut in range(1, len(events)):
        rest = events_of(calling, path, 99, events[cut - 1].id)
        assert [without_figures(event.data) for event in [*events[:cut], *rest]] == [
            without_figures(event.data) for event in events
        ]


def without_figures(data: Any) -> Any:
    """The body of an event without figures, which no two answers share."""
    left_out = ("metrics", "usage")
    if isinstance(data, dict):
        return {key: without_figures(value) for key, value in data.items() if key not in left_out}
    return data


def chat(url: str, most: int) -> list[tuple[Any, ...]]:
    """By OpenAI's own client: the calls of a stream's message and of the whole one, and why they ended."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        asked: Any = {"model": "toy", "messages": SAID, "max_tokens": most}
        with client.chat.completions.stream(**asked) as stream:
            with suppress(openai.LengthFinishReasonError):
                stream.until_done()
            streamed: Any = stream.current_completion_snapshot.choices[0]
        whole: Any = client.chat.completions.create(**asked).choices[0]
    return [
        ([(call.function.name, call.function.arguments) for call in one.message.tool_calls], one.finish_reason)
        for one in (streamed, whole)
    ]


def response(url: str, most: int) -> list[tuple[Any, ...]]:
    """As `chat`, with the status of the items."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        asked: Any = {"model": "toy", "input": "a", "max_output_tokens": most}
        with client.responses.stream(**asked) as stream:
            *_, last = stream
        both: Any = (last.response, client.responses.create(**asked))
    return [([(item.name, item.arguments, item.status) for item in one.output[2:]], one.status) for one in both]


def message(url: str, most: int) -> list[tuple[Any, ...]]:
    """As `chat`, by Anthropic's own client, which parses the arguments."""
    import anthropic  # which takes seconds: no worker without these tests needs it

    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        asked: Any = {"model": "toy", "messages": SAID, "max_tokens": most}
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        both: Any = (streamed, client.messages.create(**asked))
    return [([(block.name, block.input) for block in one.content[2:]], one.stop_reason) for one in both]


PARTIAL = {4: {}, 7: {}, 9: {"a": "bcd efg"}, 12: {"a": "bcd efg", "n": [1, 2]}}


@pytest.mark.parametrize("most", CUTS)
def test_a_call_that_is_cut_off_has_the_arguments_so_far(calling: RunningGateway, most: int):
    begun = F[: 3 * (most - 3)]
    assert chat(calling.url, most) == 2 * [([("f", begun)], "length")]
    assert response(calling.url, most) == 2 * [([("f", begun, "incomplete")], "incomplete")]
    assert message(calling.url, most) == 2 * [([("f", PARTIAL[most])], "max_tokens")]


def test_no_tool_is_to_be_run_with_malformed_arguments():
    """Anthropic's API has no status of a call, and its clients parse what there is."""
    with ScriptedServer(servicer_type=MalformedServicer) as server, RunningGateway(server.address) as gateway:
        assert message(gateway.url, CUTS[1]) == 2 * [([("f", PARTIAL[CUTS[1]])], "max_tokens")]
        assert message(gateway.url, len(SCRIPT)) == 2 * [([("f", json.loads(F)), ("g", {})], "tool_use")]


def test_a_stream_adds_up_to_the_whole_answer(calling: RunningGateway):
    assert chat(calling.url, 99) == 2 * [([("f", F), ("g", G)], "tool_calls")]
    assert response(calling.url, 99) == 2 * [([("f", F, "completed"), ("g", G, "completed")], "completed")]
    assert message(calling.url, 99) == 2 * [([("f", json.loads(F)), ("g", {})], "tool_use")]
