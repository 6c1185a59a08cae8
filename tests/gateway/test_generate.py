"""POST /v1/generate has everything that the RPC has: texts, tokens, their sources and candidates, and every pass."""

import base64
from itertools import accumulate
from typing import Any

import pytest

from outrider import Result
from tests.gateway.harness.events import SentEvent, read_events
from tests.gateway.harness.running_gateway import RunningGateway

PROMPT = "def read(self, path):"
ASKED: dict[str, Any] = {
    "max_tokens": 40,
    "seed": 11,
    "temperature": 0.8,
    "speculation": "always",
    "num_predictions": 4,
    "regex": r"(self\.path = path\n){40}",  # a text that predicts itself, however late a draft is
    "logprobs": True,
    "top_candidates": 3,
    "rank": True,
    "entropy": True,
    "pass_reports": True,
}


def events_of(gateway: RunningGateway, body: dict[str, Any], last: str | None = None) -> list[SentEvent]:
    headers = {} if last is None else {"last-event-id": last}
    answer = gateway.post("/v1/generate", {"prompt": PROMPT, **body, "stream": True}, headers=headers)
    assert answer.status_code == 200, answer.text
    return list(read_events([*answer.text.splitlines(), ""]))


def all_of(events: list[SentEvent], name: str) -> list[Any]:
    return [one for event in events if event.name == "chunk" for one in event.data[name]]


def said(result: Result) -> list[tuple[int, bytes, float | None, list[int]]]:
    return [
        (token.id, token.bytes, token.raw_logprob, [candidate.id for candidate in token.candidates])
        for token in result.tokens
    ]


def test_the_events_are_those_of_the_rpc(gateway: RunningGateway):
    events = events_of(gateway, ASKED)
    with gateway.rpc() as client:
        result = client.generate(PROMPT, **ASKED)
    assert [event.name for event in events] == ["started", *["chunk"] * (len(events) - 2), "finished"]
    assert "".join(all_of(events, "text")) == result.text
    assert all_of(events, "token_ids") == list(result.token_ids)
    told = all_of(events, "tokens")
    assert [(one["id"], base64.urlsafe_b64decode(one["bytes"]), one["raw_logprob"]) for one in told] == [
        one[:3] for one in said(result)
    ]
    assert [[each["id"] for each in one["candidates"]] for one in told] == [one[3] for one in said(result)]
    assert {one["prediction_source"] for one in told} <= {None, "draft", "lookup"}
    reports = all_of(events, "pass_reports")
    assert sum(report["tokens"] for report in reports) == len(told)
    assert sum(report["accepted"] for report in reports) == sum(one["predicted"] for one in told) > 0
    end, start = events[-1].data, events[0].data
    assert (start["seed"], start["fingerprint"]) == (11, result.started.fingerprint)
    assert (end["finish_reason"], end["usage"]["completion_tokens"]) == ("max_tokens", 40)
    assert end["speculation"]["accepted"] == sum(report["accepted"] for report in reports)


def test_alternates_are_reported_with_the_pass_they_served(gateway: RunningGateway):
    end = (events := events_of(gateway, {**ASKED, "max_tokens": 200}))[-1].data
    counts = [report["alternates"] for report in all_of(events, "pass_reports")]
    assert counts == list(accumulate(counts, max))
    assert counts[-1] <= end["speculation"]["alternates"]


def test_the_unary_answer_is_the_sum_of_the_events(gateway: RunningGateway):
    events, body = events_of(gateway, ASKED), {"prompt": PROMPT, **ASKED}
    whole = gateway.post("/v1/generate", body).json()
    assert whole["text"] == "".join(all_of(events, "text"))
    assert whole["token_ids"] == all_of(events, "token_ids")
    assert [one["raw_logprob"] for one in whole["tokens"]] == [one["raw_logprob"] for one in all_of(events, "tokens")]


def test_a_stream_continues_after_any_event(gateway: RunningGateway):
    events = events_of(gateway, ASKED)
    for cut in (1, 2, len(events) // 2, len(events) - 1):
        rest = events_of(gateway, ASKED, events[cut - 1].id)
        assert "".join(all_of([*events[:cut], *rest], "text")) == "".join(all_of(events, "text"))
        assert all_of([*events[:cut], *rest], "token_ids") == all_of(events, "token_ids")
        assert rest[-1].data["finish_reason"] == events[-1].data["finish_reason"]
        for event in rest[:-1]:
            assert bool(event.data["pass_reports"]) <= bool(event.data["token_ids"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, "messages"),
        ({"prompt": "a", "top_p": 3}, "top_p"),
        ({"prompt": "a", "top_candidates": -1}, "top_candidates"),
        ({"prompt": "a", "n": 2}, "n"),
        ({"prompt": "a", "regex": "("}, "regex"),
        ({"prompt": "a", "template_variables": {"b": 1}}, "template_variables"),
        ({"prompt": "a", "continue_final_message": True}, "continue_final_message"),
    ],
)
def test_a_wrong_field_is_named(gateway: RunningGateway, body: dict[str, Any], field: str):
    answer = gateway.post("/v1/generate", body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


def test_conversations_give_the_rpcs_text(chat_gateway: RunningGateway):
    messages: Any = [{"role": "user", "content": "a"}]
    asked: Any = {"max_tokens": 12, "seed": 5, "temperature": 0.7}
    answer = chat_gateway.post("/v1/generate", {"messages": messages, **asked}).json()
    with chat_gateway.rpc() as client:
        assert answer["text"] == client.generate(messages, **asked).text
