"""A stream continues with the same bytes for a reader that lost the connection."""

from pathlib import Path
from typing import Any

import pytest

from outrider.v1 import generation_pb2
from services.gateway.generation.piece import MOST_OF_PROMPT
from tests.gateway.harness.events import SentEvent, read_events
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.checkpoints import copy_of
from tests.harness.servers.scripted_server import Request, ScriptedServer, ScriptedServicer
from tests.harness.servers.server import target_server

PROMPT = "def read(self, path):"
COMPLETION: dict[str, Any] = {
    "prompt": [PROMPT, "import os"],
    "n": 2,
    "max_tokens": 8,
    "seed": 3,
    "temperature": 0.9,
    "logprobs": 1,
    "echo": True,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def whole(gateway: RunningGateway, path: str, body: dict[str, Any], last: str | None = None) -> list[SentEvent]:
    headers = {} if last is None else {"last-event-id": last}
    answer = gateway.post(path, body, headers=headers)
    assert answer.status_code == 200, answer.text
    return list(read_events([*answer.text.splitlines(), ""]))


def told(events: list[SentEvent]) -> dict[int, tuple[str, list[float | None], list[Any], list[str]]]:
    """Of each choice the text, the numbers, the calls and the ends."""
    found: dict[int, tuple[str, list[float | None], list[Any], list[str]]] = {}
    for event in events:
        for choice in event.data["choices"]:
            text, numbers, calls, ends = found.get(choice["index"], ("", [], [], []))
            delta = choice.get("delta", {})
            text += choice.get("text", "") + (delta.get("reasoning_content") or "") + (delta.get("content") or "")
            logprobs = choice["logprobs"] or {}
            calls = with_more(calls, delta.get("tool_calls", []))
            more = logprobs.get("token_logprobs") or [one["logprob"] for one in logprobs.get("content", ())]
            ends = ends + [choice["finish_reason"]] * (choice["finish_reason"] is not None)
            found[choice["index"]] = (text, numbers + more, calls, ends)
    return found


def with_more(calls: list[Any], deltas: list[Any]) -> list[Any]:
    """The calls with the deltas that follow; a delta without an id has more arguments of the last call."""
    for delta in deltas:
        if "id" in delta:
            calls = [*calls, delta]
        else:
            *rest, last = calls
            arguments = last["function"]["arguments"] + delta["function"]["arguments"]
            calls = [*rest, {**last, "function": {**last["function"], "arguments": arguments}}]
    return calls


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_ids_and_usage_continue_too(chat_gateway: RunningGateway, path: str):
    usage = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}, "return_token_ids": True}
    said = {"messages": [{"role": "user", "content": "a"}]} if "chat" in path else {"prompt": PROMPT}
    body = {**said, "n": 2, "max_tokens": 24, "seed": 3, "temperature": 0.9, "stream": True, **usage}
    events = whole(chat_gateway, path, body)
    for cut in (1, 2, len(events) // 2, len(events) - 2):
        both = [*events[:cut], *whole(chat_gateway, path, body, events[cut - 1].id)]
        assert reported(both) == reported(events)


def reported(events: list[SentEvent]) -> tuple[dict[int, list[int]], dict[int, int], int]:
    """The ids and the last usage of each choice, and how often the ids of a prompt are sent."""
    ids: dict[int, list[int]] = {}
    usage: dict[int, int] = {}
    prompts = 0
    for event in events:
        for choice in event.data["choices"]:
            ids.setdefault(choice["index"], []).extend(choice["token_ids"])
            usage[choice["index"]] = event.data["usage"]["completion_tokens"]
            assert usage[choice["index"]] == len(ids[choice["index"]])
            prompts += "prompt_token_ids" in (choice if event.data["object"] == "text_completion" else event.data)
    return ids, usage, prompts


def test_a_stream_continues_after_any_event(gateway: RunningGateway):
    events = whole(gateway, "/v1/completions", COMPLETION)
    for cut in (1, 3, len(events) // 3, len(events) // 2, len(events) - 3, len(events) - 1):
        rest = whole(gateway, "/v1/completions", COMPLETION, events[cut - 1].id)
        assert told([*events[:cut], *rest]) == told(events)
        assert {event.data["id"] for event in rest} == {events[0].data["id"]}
        assert rest[-1].data["usage"] == events[-1].data["usage"] | {
            name: rest[-1].data["usage"][name] for name in ("prompt_tokens_details", "completion_tokens_details")
        }


def test_a_stream_continues_within_a_long_prompt(gateway: RunningGateway):
    """Which comes in several events, before a token of the answer."""
    long = {**COMPLETION, "prompt": "import os\n" * 100, "max_tokens": 3}
    events = whole(gateway, "/v1/completions", long)
    lengths = [len(event.data["choices"][0]["logprobs"]["tokens"]) for event in events[:6]]
    assert max(lengths) == MOST_OF_PROMPT
    assert sum(lengths) > 2 * 2 * MOST_OF_PROMPT
    for cut in (1, 2, 4, 7):
        rest = whole(gateway, "/v1/completions", long, events[cut - 1].id)
        assert told([*events[:cut], *rest]) == told(events)


def test_without_a_seed_the_id_has_the_one_that_was_drawn(gateway: RunningGateway):
    body = {"prompt": PROMPT, "max_tokens": 12, "ignore_eos": True, "stream": True}
    events = whole(gateway, "/v1/completions", body)
    cut = len(events) // 2
    assert told([*events[:cut], *whole(gateway, "/v1/completions", body, events[cut - 1].id)]) == told(events)


def test_calls_and_thoughts_continue_too(chat_gateway: RunningGateway):
    tool = {"type": "function", "function": {"name": "now"}}
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 120, "seed": 5, "temperature": 0.7}
    called = {**body, "tools": [tool], "tool_choice": "required", "stream": True, "logprobs": True}
    thought = {**body, "messages": [*body["messages"], {"role": "assistant", "content": "<think>so"}], "stream": True}  # type: ignore[misc]
    for asked in (called, {**thought, "continue_final_message": True}):
        events = whole(chat_gateway, "/v1/chat/completions", asked)
        for cut in range(1, len(events), max(1, len(events) // 4)):
            rest = whole(chat_gateway, "/v1/chat/completions", asked, events[cut - 1].id)
            assert told([*events[:cut], *rest]) == told(events)


@pytest.mark.parametrize("change", [{"max_tokens": 9}, {"n": 1}])
def test_another_request_is_not_continued(gateway: RunningGateway, change: Any):
    last = whole(gateway, "/v1/completions", COMPLETION)[3].id
    answer = gateway.post("/v1/completions", {**COMPLETION, **change}, headers={"last-event-id": last})
    assert (answer.status_code, answer.json()["error"]["param"]) == (409, "Last-Event-ID")
    assert "belongs to another request" in answer.json()["error"]["message"]


@pytest.mark.parametrize("last", ["7", "a" * 9000, f"{'a' * 24}.1.99999999999999999999.{'0' * 12}.1.0.1-1-1", "é"])
def test_an_invalid_last_event_id_is_refused(gateway: RunningGateway, last: str):
    answer = gateway.post("/v1/completions", COMPLETION, headers={"last-event-id": last.encode("latin-1")})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "Last-Event-ID")


def test_a_finished_stream_continues_with_no_events(gateway: RunningGateway):
    events = whole(gateway, "/v1/completions", COMPLETION)
    assert whole(gateway, "/v1/completions", COMPLETION, events[-1].id) == []


CONVERSATION: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 12, "stream": True}


def test_a_conversation_under_another_template_is_refused(model: Path, tmp_path: Path):
    """Which another server, or the same one later, has for the same model."""
    with target_server(model) as target, RunningGateway(target.address) as gateway:
        last = whole(gateway, "/v1/chat/completions", CONVERSATION)[0].id
    template = (model / "chat_template.jinja").read_text()
    changed = copy_of(model, tmp_path, chat_template="Answer in one word." + template)
    with target_server(changed) as target, RunningGateway(target.address) as gateway:
        answer = gateway.post("/v1/chat/completions", CONVERSATION, headers={"last-event-id": last})
    assert (answer.status_code, answer.json()["error"]["param"]) == (409, "Last-Event-ID")


def test_a_conversation_that_renders_differently_now_is_refused(model: Path, tmp_path: Path):
    """As a template does that names the day; this one names the microsecond."""
    folder = copy_of(model, tmp_path, chat_template="{{ strftime_now('%s.%f') }} {{ messages[0].content }}")
    with target_server(folder) as target, RunningGateway(target.address) as gateway:
        last = whole(gateway, "/v1/chat/completions", CONVERSATION)[0].id
        answer = gateway.post("/v1/chat/completions", CONVERSATION, headers={"last-event-id": last})
    assert (answer.status_code, answer.json()["error"]["param"]) == (409, "Last-Event-ID")


class MixedServicer(ScriptedServicer):
    """Two builds at one address: which of them answers is in the prompt."""

    def _started(self, request: Request, prompt: list[int], seed: int) -> generation_pb2.Started:
        started = super()._started(request, prompt, seed)
        started.fingerprint = f"f{prompt[0] % 2}"
        return started


MIXED = "the targets that answer the prompts are of different models or builds"


def test_prompts_under_several_fingerprints_have_no_answer():
    with ScriptedServer(servicer_type=MixedServicer) as server, RunningGateway(server.address) as gateway:
        alike, mixed, streamed = (
            gateway.post("/v1/completions", {"prompt": ["a", second], "max_tokens": 3, "stream": stream})
            for second, stream in (("c", False), ("b", False), ("b", True))
        )
    assert (alike.status_code, mixed.status_code, streamed.status_code) == (200, 503, 200)
    assert mixed.json()["error"]["message"] == MIXED
    (event,) = read_events([*streamed.text.splitlines(), ""])  # the headers are sent before it is known
    assert event.data["error"]["message"] == MIXED
