"""The names and values that other servers' clients send mean the same here, at every door."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from outrider.v1 import generation_pb2
from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import TalkerServicer
from tests.harness.servers.scripted_server import Request, ScriptedServer

SAID: Any = [{"role": "user", "content": "A last-in, first-out stack"}]
SAMPLED: dict[str, Any] = {"seed": 5, "temperature": 0.7}
DOORS: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "def read(self, path):", "max_tokens": 12},
    "/v1/chat/completions": {"messages": SAID, "max_tokens": 12},
    "/v1/responses": {"input": SAID, "max_output_tokens": 12},
    "/v1/messages": {"messages": SAID, "max_tokens": 12},
    "/v1/generate": {"messages": SAID, "max_tokens": 12},
}
CONVERSATIONS = [path for path in DOORS if path != "/v1/completions"]
LIMITS = {"/v1/responses": "max_output_tokens"}
CITY = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": False}


def asked(gateway: RunningGateway, path: str, fields: dict[str, Any]) -> Any:
    """The parts of an answer that the request decides."""
    answer = gateway.post(path, {**SAMPLED, **DOORS[path], **fields})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    texts = {name: body.get(name) for name in ("content", "text", "finish_reason", "stop_reason")}
    choices = [(one.get("text") or one["message"], one["finish_reason"]) for one in body.get("choices", ())]
    return choices, [item["content"] for item in body.get("output", ())], texts


def problem(gateway: RunningGateway, path: str, fields: dict[str, Any]) -> tuple[str, str]:
    """The field that a refusal names, and its message."""
    answer = gateway.post(path, {**SAMPLED, **DOORS.get(path, {}), **fields})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    return error.get("param") or error["field"], error["message"]


class MessageServicer(TalkerServicer):
    """The toy with a chat template, whose answers are messages too."""

    def _chunk(self, request: Request, whole: list[int], start: int, end: int) -> generation_pb2.Chunk:
        chunk = super()._chunk(request, whole, start, end)
        chunk.message_deltas.add(content=chunk.text)
        return chunk


@pytest.fixture(scope="module")
def toy() -> Iterator[tuple[RunningGateway, ScriptedServer]]:
    """A gateway in front of a server that notes the requests of the RPC, and the server."""
    with ScriptedServer(servicer_type=MessageServicer) as server, RunningGateway(server.address) as gateway:
        yield gateway, server


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"guided_regex": "[a-f]{20}"}, {"regex": "[a-f]{20}"}),
        ({"guided_choice": ["red", "green"]}, {"choice": ["red", "green"]}),
        ({"guided_json": CITY, "guided_decoding_backend": "xgrammar"}, {"json_schema": CITY}),
        ({"guided_grammar": 'start: "a" /[b-f]{3}/'}, {"lark": 'start: "a" /[b-f]{3}/'}),
        ({"structured_outputs": {"json": CITY}}, {"json_schema": CITY}),
        ({"structured_outputs": {"json_object": True, "regex": None}}, {"json_schema": {"type": "object"}}),
        ({"structured_outputs": {"regex": "[a-f]{20}"}}, {"regex": "[a-f]{20}"}),
        ({"structured_outputs": {"choice": ["red", "green"]}}, {"choice": ["red", "green"]}),
        ({"structured_outputs": {"grammar": 'start: "a" /[b-f]{3}/'}}, {"lark": 'start: "a" /[b-f]{3}/'}),
        ({"skip_special_tokens": False, "ignore_eos": True}, {"show_special_tokens": True, "ignore_eos": True}),
        ({"repeat_penalty": 2.0}, {"repetition_penalty": 2.0}),
        ({"top_k": -1}, {"top_k": 0}),
        ({"cache_prompt": False}, {"prefix_cache": False}),
        ({"bad_words": [], "logits_processors": None, "return_hidden_states": False, "truncate_prompt_tokens": None,
          "return_tokens_as_token_ids": False, "early_stopping": False}, {}),
        ({"use_beam_search": False, "length_penalty": 1, "spaces_between_special_tokens": True,
          "skip_special_tokens": True, "unknown": None}, {"show_special_tokens": False}),
    ],
)  # fmt: skip
def test_fields_of_other_servers_mean_ours(
    toy: tuple[RunningGateway, ScriptedServer], theirs: dict[str, Any], ours: dict[str, Any]
):
    gateway, server = toy
    for path in DOORS:
        assert asked(gateway, path, theirs) == asked(gateway, path, ours)
        for request in server.requests:
            request.ClearField("request_id")
        assert server.requests[-2] == server.requests[-1]


@pytest.mark.parametrize("path", DOORS)
def test_a_stop_string_can_stay(chat_gateway: RunningGateway, path: str):
    stop = {"stop_sequences" if path == "/v1/messages" else "stop": ["e"], LIMITS.get(path, "max_tokens"): 40}
    kept = asked(chat_gateway, path, {**stop, "include_stop": True})
    assert kept != asked(chat_gateway, path, stop)
    for name in ("include_stop_str_in_output", "no_stop_trim"):
        assert asked(chat_gateway, path, {**stop, name: True}) == kept


@pytest.mark.parametrize("path", CONVERSATIONS)
def test_variables_of_the_template_have_two_names(chat_gateway: RunningGateway, path: str):
    plain = asked(chat_gateway, path, {})
    for name in ("template_variables", "chat_template_kwargs"):
        changed = asked(chat_gateway, path, {name: {"bos_token": "changed"}})
        assert changed == asked(chat_gateway, path, {"template_variables": {"bos_token": "changed"}})
    assert asked(chat_gateway, path, {"chat_template_kwargs": {}}) == plain
    both = {"template_variables": {"a": 1}, "chat_template_kwargs": {"a": 1}}
    field, message = problem(chat_gateway, path, both)
    assert field == "chat_template_kwargs"
    assert "is given beside template_variables" in message
    assert problem(chat_gateway, path, {"chat_template_kwargs": {"messages": []}})[0] == "chat_template_kwargs"


@pytest.mark.parametrize("path", [path for path in DOORS if path != "/v1/messages"])
@pytest.mark.parametrize("value", [None, -1])
def test_minus_one_is_no_limit(chat_gateway: RunningGateway, path: str, value: int | None):
    fields = {"regex": "[a-f]{60}", "reasoning_marks": []}
    limited = asked(chat_gateway, path, {**fields, LIMITS.get(path, "max_tokens"): 300})
    assert asked(chat_gateway, path, {**fields, LIMITS.get(path, "max_tokens"): value}) == limited


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/generate"])
def test_the_limit_has_another_name(chat_gateway: RunningGateway, path: str):
    fields = {"regex": "[a-f]{60}", "reasoning_marks": [], "max_tokens": None}
    assert asked(chat_gateway, path, {**fields, "n_predict": 7}) == asked(
        chat_gateway, path, {**fields, "max_tokens": 7}
    )
    unlimited = {name: value for name, value in DOORS[path].items() if name != "max_tokens"}
    for limit in ({"n_predict": -1}, {"n_predict": -1, "max_tokens": None}, {"n_predict": None, "max_tokens": -1}):
        answer = chat_gateway.post(
            path, {**SAMPLED, **unlimited, "regex": "[a-f]{60}", "reasoning_marks": [], **limit}
        ).json()
        assert re.search("[a-f]{60}", str(answer))
    for more in (7, -1):
        field, message = problem(chat_gateway, path, {"max_tokens": 7, "n_predict": more})
        assert (field, "beside n_predict" in message) == ("max_tokens", True)


@pytest.mark.parametrize("path", DOORS)
def test_a_seed_of_minus_one_is_random(chat_gateway: RunningGateway, path: str):
    assert asked(chat_gateway, path, {"seed": -1, "temperature": 0}) == asked(chat_gateway, path, {"temperature": 0})


@pytest.mark.parametrize(
    ("fields", "name", "said"),
    [
        ({"regex": "a", "guided_regex": "a"}, "guided_regex", "beside regex"),
        ({"guided_json": {}, "guided_choice": ["a"]}, "guided_choice", "only one grammar"),
        ({"regex": "a", "structured_outputs": {"json": {}}}, "structured_outputs.json", "beside regex"),
        ({"structured_outputs": {"structural_tag": "a"}}, "structured_outputs.structural_tag", "is not supported"),
        ({"structured_outputs": {"json": {"type": "a"}}}, "structured_outputs.json", "type: a"),
        ({"guided_json": {"type": "a"}}, "guided_json", "type: a"),
        ({"guided_choice": []}, "guided_choice", ""),
        ({"guided_grammar": 'root ::= "a"'}, "guided_grammar", "is GBNF"),
        ({"structured_outputs": {"grammar": 'root ::= "a"'}}, "structured_outputs.grammar", "is GBNF"),
        ({"repeat_penalty": 0}, "repeat_penalty", "is 0"),
        ({"use_beam_search": True}, "use_beam_search", "is not supported"),
        ({"length_penalty": 2}, "length_penalty", "set it to 1.0"),
        ({"skip_special_tokens": True, "show_special_tokens": True}, "skip_special_tokens", "its opposite"),
        ({"include_stop": True, "no_stop_trim": True}, "include_stop", "no_stop_trim"),
        ({"bad_words": ["a"]}, "bad_words", "is not supported"),
        ({"truncate_prompt_tokens": 5}, "truncate_prompt_tokens", "is not supported"),
        ({"unknown": 0}, "unknown", "not permitted"),
        ({"top_k": -2}, "top_k", "is -2"),
    ],
)
def test_a_bad_field_is_named(chat_gateway: RunningGateway, fields: dict[str, Any], name: str, said: str):
    for path in DOORS:
        field, message = problem(chat_gateway, path, fields)
        assert field == name
        assert said in message


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_response_format_is_a_grammar(chat_gateway: RunningGateway, path: str):
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": CITY}}
    ours = asked(chat_gateway, path, {"json_schema": CITY})
    assert asked(chat_gateway, path, {"response_format": wanted}) == ours
    assert asked(chat_gateway, path, {"response_format": {"type": "text"}}) == asked(chat_gateway, path, {})
    field, message = problem(chat_gateway, path, {"response_format": wanted, "guided_regex": "a"})
    assert (field, "beside guided_regex" in message) == ("response_format", True)


def test_chat_takes_the_fields_of_openai(chat_gateway: RunningGateway):
    path = "/v1/chat/completions"
    neutral = {
        "user": "a", "safety_identifier": "a", "prompt_cache_key": "a", "prompt_cache_retention": "24h",
        "verbosity": "low", "prediction": {"type": "content", "content": "a"}, "web_search_options": None,
        "audio": None, "functions": [], "function_call": None, "modalities": ["text"], "include_reasoning": True,
        "service_tier": "auto", "store": False, "echo": False, "n_predict": None, "ttl": 300, "draft_model": "a",
    }  # fmt: skip
    assert asked(chat_gateway, path, neutral) == asked(chat_gateway, path, {})
    for name, value in (("audio", {"voice": "a"}), ("web_search_options", {"a": 1}), ("include_reasoning", False)):
        assert problem(chat_gateway, path, {name: value})[0] == name
