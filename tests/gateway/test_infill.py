"""Gaps in texts are filled in as by the RPC: by the completions of OpenAI's API, and in llama.cpp's format."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from outrider import Result
from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.checkpoints import Kind, copy_of, random_checkpoint
from tests.harness.models.infill_checkpoints import add_marks
from tests.harness.servers.server import target_server

BEFORE, AFTER = "def add(a, b):\n    ", "\n    return c\n"
SAMPLED: dict[str, Any] = {"seed": 5, "temperature": 0.7, "ignore_eos": True}
GAP: dict[str, Any] = {"input_prefix": BEFORE, "input_suffix": AFTER, "n_predict": 12, **SAMPLED}
FILES = [("one.py", "import os"), ("one.py", "import sys"), ("tmp", "x")]
EXTRA = [{"filename": "one.py", "text": "import os"}, {"filename": "one.py", "text": "import sys"}, {"text": "x"}]


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway in front of a target whose tokenizer has marks."""
    model = copy_of(random_checkpoint(Kind.LLAMA), tmp_path_factory.mktemp("marked"))
    add_marks(model)
    with target_server(model) as target, RunningGateway(target.address) as gateway:
        yield gateway
        target.assert_all_free()


def rpc(gateway: RunningGateway, **options: Any) -> Result:
    with gateway.rpc() as client:
        return client.generate(BEFORE, suffix=AFTER, max_tokens=12, **{**SAMPLED, **options})


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_with_a_suffix_fills_the_gap(marked: RunningGateway, stream: bool):
    asked = {"prompt": BEFORE, "suffix": AFTER, "max_tokens": 12, "stream": stream, **SAMPLED}
    answer = marked.post("/v1/completions", asked)
    bodies = [one.data for one in read_events(answer.text.split("\n"))] if stream else [answer.json()]
    assert "".join(body["choices"][0]["text"] for body in bodies) == rpc(marked).text
    answer = marked.post("/v1/completions", {**asked, "stream": False, "infill_files": FILES})
    assert answer.json()["choices"][0]["text"] == rpc(marked, infill_files=FILES).text
    plain = {"prompt": BEFORE, "max_tokens": 12, **SAMPLED}
    for none in (None, ""):
        texts = [marked.post("/v1/completions", one).json()["choices"] for one in (plain, {**plain, "suffix": none})]
        assert texts[0] == texts[1]


def test_a_gap_is_filled_in_the_format_of_llama_cpp(marked: RunningGateway):
    expected = rpc(marked, infill_files=FILES)
    answer = marked.post("/infill", {**GAP, "input_extra": EXTRA}).json()
    assert (answer["content"], answer["tokens"]) == (expected.text, [*expected.token_ids])
    assert (answer["stop"], answer["stop_type"], answer["truncated"]) == (True, "limit", False)
    assert answer["tokens_predicted"] == answer["timings"]["predicted_n"] == 12
    assert answer["tokens_evaluated"] == expected.usage.prompt_tokens
    assert answer["tokens_cached"] + answer["timings"]["prompt_n"] == expected.usage.prompt_tokens


def test_a_gap_is_filled_in_a_stream(marked: RunningGateway):
    expected = rpc(marked)
    answer = marked.post("/infill", {**GAP, "stream": True})
    events = list(read_events(answer.text.split("\n")))
    assert "".join(event.data["content"] for event in events) == expected.text
    assert [token_id for event in events for token_id in event.data["tokens"]] == [*expected.token_ids]
    assert [event.data["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    resumed = httpx2.post(
        f"{marked.url}/infill", json={**GAP, "stream": True}, headers={"Last-Event-ID": str(events[1].id)}, timeout=60
    )
    rest = "".join(event.data["content"] for event in read_events(resumed.text.split("\n")))
    assert rest == "".join(event.data["content"] for event in events[2:])


def test_the_fields_of_editors_are_taken(marked: RunningGateway):
    fields = {
        "input_prefix": BEFORE[:5], "prompt": BEFORE[5:], "n_indent": 4, "t_max_prompt_ms": 500, "id_slot": -1,
        "t_max_predict_ms": 1000, "response_fields": ["content"], "cache_prompt": True, "input_extra": [],
        "samplers": ["top_k", "infill"], "top_k": 1, "unknown": None,
    }  # fmt: skip
    answer = marked.post("/infill", {**GAP, **fields})
    assert answer.json()["content"] == rpc(marked, samplers=["top_k"], top_k=1).text


@pytest.mark.parametrize(
    ("fields", "name", "said"),
    [
        ({"input_prefix": None}, "input_prefix", "valid string"),
        ({"n_predict": 0}, "n_predict", "is 0"),
        ({"input_extra": [{"filename": "a"}]}, "input_extra[0].text", "required"),
        ({"input_extra": [{"text": "a"}] * 257}, "input_extra", "has 257"),
        ({"id_slot": 3}, "id_slot", "set it to -1"),
        ({"unknown": 1}, "unknown", "not permitted"),
    ],
)
def test_a_bad_field_is_named(marked: RunningGateway, fields: dict[str, Any], name: str, said: str):
    answer = marked.post("/infill", {**GAP, **fields})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
    assert said in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/infill", GAP, "input_suffix"),
        ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
        ("/v1/completions", {"prompt": [5], "suffix": "b"}, "suffix"),
    ],
)
def test_a_model_without_marks_says_so(gateway: RunningGateway, path: str, body: Any, name: str):
    answer = gateway.post(path, body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
    assert "is set; allowed" in answer.json()["error"]["message"]


def test_the_list_of_models_shows_which_can_infill(gateway: RunningGateway, marked: RunningGateway):
    said = [httpx2.get(f"{one.url}/v1/models", timeout=60).json()["data"][0] for one in (gateway, marked)]
    assert [one["outrider"]["has_infill"] for one in said] == [False, True]
