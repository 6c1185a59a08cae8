"""Bad requests are refused in the API's own shape, with the field's own name; a client that leaves frees everything."""

import socket
from typing import Any

import grpc
import httpx2
import openai
import pytest

from outrider import ResourceExhausted
from services.gateway.generation.field_names import common_name, problem_of
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import Fault, ScriptedServer
from tests.harness.servers.server import RunningTarget

JSON = {"content-type": "application/json"}
ENDLESS = {"prompt": "def main(argv):", "max_tokens": 1900, "ignore_eos": True}
BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "a range": ({"top_p": 7}, "top_p", "is 7; allowed: above 0, at most 1"),
    "an entry": ({"stop": ["a", ""]}, "stop[1]", "has 0 bytes"),
    "a type": ({"max_tokens": "many"}, "max_tokens", "valid integer"),
    "none of its fields": ({"speculaton": "never"}, "speculaton", "not permitted"),
    "a suffix": ({"suffix": "end"}, "suffix", "the model's tokenizer has no marks"),
    "the best of too few": ({"best_of": 2, "n": 3}, "best_of", "is 2; allowed: at least num_samples, which is 3"),
    "the best of too many": ({"prompt": ["a"] * 65, "best_of": 2}, "n", "asks for 130 answers to all prompts"),
    "many candidates": ({"logprobs": 2000}, "logprobs", "is 2000; allowed: "),
    "many samples": ({"n": 99}, "n", "allowed: at least 1, at most 16"),
    "a number beyond the wire's": ({"top_k": 1 << 70}, "top_k", ""),
    "many prompts": ({"prompt": ["a"] * 65, "n": 2}, "n", "asks for 130 answers to all prompts"),
    "no prompt": ({"prompt": []}, "prompt", "is empty"),
    "ids that are none": ({"prompt": [1, -1]}, "prompt", ""),
    "a part of a part": ({"stream_options": {"include": 1}}, "stream_options.include", "not permitted"),
    "a grammar that is none": ({"regex": "("}, "regex", ""),
    "a mode that is none": ({"speculation": "sometimes"}, "speculation", "'never', 'auto' or 'always'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_field_is_named(client: openai.OpenAI, case: str):
    fields, name, said = BAD[case]
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="target", prompt="a", extra_body=fields)
    assert refused.value.param == name
    assert said in refused.value.message


def test_another_model_is_not_found(client: openai.OpenAI):
    with pytest.raises(openai.NotFoundError, match="'gpt-9' is not served here; allowed: 'target'"):
        client.completions.create(model="gpt-9", prompt="a")
    assert client.models.retrieve("target").id == "target"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("org/name")


def test_two_grammars_are_refused(gateway: RunningGateway):
    answer = gateway.post("/v1/completions", {"prompt": "a", "regex": "a", "lark": "start: /a/"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "lark: is given beside regex; only one grammar is allowed"
    assert answer.json()["error"]["param"] == "lark"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"\xff"',
        b"[" * 100_000,
        b'{"prompt": "\\ud800"}',
        b'{"prompt": {"a": 1}}',
        b'{"prompt": "a", "top_p": NaN}',
    ],
)
def test_malformed_requests_are_refused(gateway: RunningGateway, body: bytes):
    answer = httpx2.post(f"{gateway.url}/v1/completions", content=body, headers=JSON, timeout=60)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_body_that_is_all_faults_is_refused_with_the_first(gateway: RunningGateway):
    entries = gateway.post("/v1/completions", {"prompt": [{}] * 1000, "stop": [1, 2]}).json()["error"]
    assert {part.partition(":")[0] for part in entries["message"].split("; ")} == {"prompt[0]", "stop[0]"}
    keys = gateway.post("/v1/completions", {f"k{index}": 1 for index in range(2000)}).json()["error"]
    assert keys["message"] == "the body has 2001 faults"


def test_a_number_that_json_has_not_is_refused_wherever_it_is(chat_gateway: RunningGateway):
    said = b'{"messages": [{"role": "user", "content": "a"}], "template_variables": {"a": [-Infinity]}}'
    answer = httpx2.post(f"{chat_gateway.url}/v1/chat/completions", content=said, headers=JSON, timeout=60)
    assert (answer.status_code, answer.json()["error"]["message"][:20]) == (400, "the body is not JSON")


def test_unknown_paths_and_methods_are_refused(gateway: RunningGateway):
    assert gateway.post("/v1/edits", {}).json()["error"]["message"] == "/v1/edits is not served"
    answer = httpx2.get(f"{gateway.url}/v1/completions", timeout=60)
    assert (answer.status_code, answer.json()["error"]["type"]) == (405, "invalid_request_error")


def test_a_stream_that_is_left_frees_its_sequence(client: openai.OpenAI, demo: RunningTarget):
    asked = {"model": "target", "prompt": "def main(argv):", "max_tokens": 1900, "extra_body": {"ignore_eos": True}}
    stream = client.completions.create(**asked, stream=True)
    next(iter(stream))
    stream.close()
    demo.assert_all_free()


def test_a_request_that_times_out_frees_its_sequence(gateway: RunningGateway, demo: RunningTarget):
    with httpx2.Client(timeout=60) as client, pytest.raises(httpx2.ReadTimeout):
        client.post(f"{gateway.url}/v1/completions", json=ENDLESS, timeout=0.3)
    demo.assert_all_free()


def test_a_body_is_bounded(demo: RunningTarget):
    with RunningGateway(demo.address, max_body=1000) as small:
        assert small.post("/v1/completions", {"prompt": "a" * 900, "max_tokens": 1}).status_code == 200
        answer = small.post("/v1/completions", {"prompt": "a" * 1000})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


def test_a_page_may_call_where_it_is_allowed(demo: RunningTarget):
    asks = {"origin": "https://a.example", "access-control-request-method": "POST"}
    with RunningGateway(demo.address, cors_origins=("https://a.example",)) as open_one:
        answer = httpx2.options(f"{open_one.url}/v1/completions", headers=asks, timeout=60)
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        others = {**asks, "origin": "https://b.example"}
        assert httpx2.options(f"{open_one.url}/v1/completions", headers=others, timeout=60).status_code == 400
    with RunningGateway(demo.address) as closed:
        assert "access-control-allow-origin" not in httpx2.get(f"{closed.url}/health", headers=asks, timeout=60).headers


def test_without_a_target_health_and_completions_give_503():
    with RunningGateway("127.0.0.1:1", connect_seconds=0.2, max_retries=1000) as lost:
        health = httpx2.get(f"{lost.url}/health", timeout=60)
        assert (health.status_code, health.json()) == (503, {"status": "unavailable"})
        with openai.OpenAI(base_url=f"{lost.url}/v1", api_key="none", max_retries=0) as client:
            with pytest.raises(openai.InternalServerError) as refused:
                client.completions.create(model="target", prompt="a")
            assert (refused.value.status_code, "127.0.0.1" in refused.value.message) == (503, False)


def test_a_silent_target_counts_as_not_reached():
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        RunningGateway(f"127.0.0.1:{silent.getsockname()[1]}", connect_seconds=0.2, max_retries=1000) as gateway,
    ):
        answer = gateway.post("/v1/completions", {"prompt": "a"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")


def test_a_full_target_says_when_to_come_again():
    full = ResourceExhausted("the server is full")
    full.retry_after = 1.2
    told = problem_of(full, common_name)
    assert (told.kind.status, told.headers) == (429, {"retry-after": "2"})
    assert problem_of(ResourceExhausted("no"), common_name).headers == {}


def test_a_refusal_for_want_of_room_has_its_status():
    with (
        ScriptedServer(Fault("arrival", grpc.StatusCode.RESOURCE_EXHAUSTED)) as full,
        RunningGateway(full.address, max_retries=0) as gateway,
    ):
        answer = gateway.post("/v1/completions", {"prompt": "a"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (429, "rate_limit_error")
