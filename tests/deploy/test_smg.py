"""SMG before a target: OpenAI's own client gets chat, completions, tools, JSON, several samples, and our bytes."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import openai
import pytest

from outrider.v1 import common_pb2, generation_pb2
from tests.deploy.smg import Smg, binary
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.harness.models.checkpoints import copy_of
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.draft_link import drafted_target
from tests.rpc.harness.requests import as_unary, stream, stream_request

pytestmark = pytest.mark.skipif(
    binary() is None, reason="SMG IS NOT INSTALLED (make deploy-test INSTALLS IT): NO ROUTER IS PUT BEFORE A TARGET"
)
NEVER = {"mode": common_pb2.SPECULATION_MODE_NEVER}
MODEL = "model"  # the folder's name
TEMPLATE = "{% for message in messages %}# {{ message.content }}\n{% endfor %}{% if tools %}# {{ tools }}\n{% endif %}"
SAID: Any = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "A last-in, first-out stack"}]
SAMPLED: dict[str, Any] = {"temperature": 0.7, "top_p": 0.9, "seed": 5, "max_tokens": 24}
# Some seeds never leave the white space that JSON allows between its parts.
PATIENT: dict[str, Any] = {**SAMPLED, "max_tokens": 300, "frequency_penalty": 2.0}
TEXT = "def main(argv):"
AS_SMG_ENCODES = {"text": TEXT, "add_special_tokens": False}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "pattern": "^[A-Z][a-z]{2,5}$"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    """The demo pair, with a chat template, which it has not: a random model would never end a call."""
    model = copy_of(DEMO_TARGET, tmp_path_factory.mktemp("model"), chat_template=TEMPLATE)
    with drafted_target(model, DEMO_DRAFT, lookup=True, kv_blocks=256, vllm_contract=True) as running:
        yield running
        running.assert_all_free()


@pytest.fixture(scope="module")
def client(target: RunningTarget, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    """OpenAI's own client of the router, which has the target's tokenizer by then."""
    router = Smg(tmp_path_factory.mktemp("smg"), target.address)
    try:
        router.wait_until_ready(MODEL)
        with openai.OpenAI(base_url=f"{router.url}/v1", api_key="none", max_retries=0, timeout=60) as made:
            yield made
    finally:
        router.kill()


def whole(
    target: RunningTarget, prompt: Any, stop_token_ids: Iterable[int] = (), **fields: Any
) -> generation_pb2.GenerateResponse:
    """The same by our own RPC, without predictions."""
    sampling = {"seed": 5, "temperature": 0.7, "top_p": 0.9}
    stop = {"max_tokens": 24, "token_ids": stop_token_ids}
    request = stream_request(prompt, sampling=sampling, stop=stop, speculation=NEVER, **fields)
    return target.stub.Generate(as_unary(request), timeout=60)


def test_a_completion_has_the_bytes_of_the_rpc(client: openai.OpenAI, target: RunningTarget) -> None:
    expected = whole(target, AS_SMG_ENCODES)
    answer = client.completions.create(model=MODEL, prompt=TEXT, **SAMPLED)
    streamed = client.completions.create(model=MODEL, prompt=TEXT, stream=True, **SAMPLED)
    assert answer.choices[0].text == expected.text == "".join(one.choices[0].text for one in streamed if one.choices)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(expected.token_ids)
    assert answer.usage.prompt_tokens == expected.started.prompt_tokens


def test_samples_have_the_bytes_of_the_rpc(client: openai.OpenAI, target: RunningTarget) -> None:
    expected = whole(target, AS_SMG_ENCODES, num_samples=3)
    answer = client.completions.create(model=MODEL, prompt=TEXT, n=3, **SAMPLED)
    texts = [expected.text, *(one.text for one in expected.further_samples)]
    assert [choice.text for choice in sorted(answer.choices, key=lambda one: one.index)] == texts
    assert len({*texts}) == 3


def test_samples_that_end_sooner_keep_their_places(client: openai.OpenAI, target: RunningTarget) -> None:
    free = whole(target, AS_SMG_ENCODES, num_samples=3)
    stop = next(each for each in free.further_samples[1].token_ids if each not in free.token_ids)
    expected = whole(target, AS_SMG_ENCODES, [stop], num_samples=3)
    stopped: Any = {"stop_token_ids": [stop]}
    answer = client.completions.create(model=MODEL, prompt=TEXT, n=3, extra_body=stopped, **SAMPLED)
    assert len(expected.further_samples[1].token_ids) < len(expected.token_ids)
    texts = [expected.text, *(one.text for one in expected.further_samples)]
    assert [choice.text for choice in sorted(answer.choices, key=lambda one: one.index)] == texts


def test_a_conversation_has_the_bytes_of_the_rpc(client: openai.OpenAI, target: RunningTarget) -> None:
    """The router renders the template that the target has sent, and encodes by its tokenizer."""
    expected = whole(target, {"chat": {"messages": SAID}})
    answer = client.chat.completions.create(model=MODEL, messages=SAID, **SAMPLED)
    streamed = client.chat.completions.create(model=MODEL, messages=SAID, stream=True, **SAMPLED)
    assert answer.choices[0].message.content == expected.text
    assert "".join(one.choices[0].delta.content or "" for one in streamed if one.choices) == expected.text
    assert answer.choices[0].finish_reason == "length"


def test_logprobs_are_those_of_the_rpc(client: openai.OpenAI, target: RunningTarget) -> None:
    expected = stream(
        target,
        stream_request(
            {"chat": {"messages": SAID}},
            sampling={"seed": 5, "temperature": 0.7, "top_p": 0.9},
            stop={"max_tokens": 24},
            output={"top_candidates": 2},
        ),
    )
    answer = client.chat.completions.create(model=MODEL, messages=SAID, logprobs=True, top_logprobs=2, **SAMPLED)
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.content is not None
    assert [one.logprob for one in told.content] == pytest.approx([one.raw_logprob for one in expected.records])
    assert [len(one.top_logprobs) for one in told.content] == [2] * 24


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_calls_of_tools_follow_their_schemas(client: openai.OpenAI, choice: Any) -> None:
    asked = {**PATIENT, "tools": [TOOL], "tool_choice": choice}
    answers = [
        client.chat.completions.create(model=MODEL, messages=SAID, **{**asked, "seed": seed}) for seed in range(6)
    ]
    called: list[Any] = [one.choices[0] for one in answers if one.choices[0].finish_reason == "tool_calls"]
    assert called
    for call in (call for one in called for call in one.message.tool_calls):
        assert call.function.name == "weather"
        assert json.loads(call.function.arguments).keys() == {"city"}


def test_json_follows_its_schema(client: openai.OpenAI) -> None:
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
    asked = {**PATIENT, "response_format": wanted}
    answers = [
        client.chat.completions.create(model=MODEL, messages=SAID, **{**asked, "seed": seed}) for seed in range(6)
    ]
    texts = [one.choices[0].message.content or "" for one in answers if one.choices[0].finish_reason == "stop"]
    assert texts
    for text in texts:
        assert json.loads(text).keys() == {"city"}


def test_a_bad_field_is_reported_to_the_caller(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"sampling_params\.regex cannot be followed"):
        client.completions.create(model=MODEL, prompt="x", extra_body={"regex": "(("}, **SAMPLED)


def test_a_cancelled_stream_frees_the_target(client: openai.OpenAI, target: RunningTarget) -> None:
    asked = {**SAMPLED, "max_tokens": 400}
    with client.completions.create(model=MODEL, prompt=TEXT, stream=True, **asked) as streamed:
        next(iter(streamed))
    target.assert_all_free()
