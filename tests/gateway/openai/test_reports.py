"""Completions report token ids and the usage so far as vLLM does, and an echoed prompt alone."""

from typing import Any

import openai
import pytest

from outrider import Result
from tests.gateway.harness.running_gateway import RunningGateway

PROMPT = "def read(self, path):"
SAMPLED: dict[str, Any] = {"temperature": 0.8, "seed": 17, "max_tokens": 12, "n": 2}
ALWAYS = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
SAID: Any = [{"role": "user", "content": "a"}]


def rpc(gateway: RunningGateway, prompt: Any, **options: Any) -> list[Result]:
    with gateway.rpc() as client:
        result = client.generate(prompt, temperature=0.8, seed=17, max_tokens=12, num_samples=2, **options)
    return [result, *result.further_samples]


def test_a_completion_has_token_ids(client: openai.OpenAI, gateway: RunningGateway):
    expected = rpc(gateway, PROMPT)
    asked: Any = {"model": "target", "prompt": PROMPT, "extra_body": {"return_token_ids": True}, **SAMPLED}
    whole = client.completions.create(**asked)
    assert [tuple(one.token_ids) for one in whole.choices] == [one.token_ids for one in expected]
    prompt_ids = [*expected[0].started.prompt_token_ids]
    assert [one.prompt_token_ids for one in whole.choices] == [prompt_ids] * 2
    streamed: list[list[int]] = [[], []]
    prompts: list[Any] = []
    for part in client.completions.create(**asked, stream=True):
        for choice in part.choices:
            streamed[choice.index] += choice.token_ids
            prompts += [choice.prompt_token_ids] if hasattr(choice, "prompt_token_ids") else []
    assert [*map(tuple, streamed)] == [one.token_ids for one in expected]
    assert prompts == [prompt_ids] * 2
    assert not hasattr(client.completions.create(**{**asked, "extra_body": {}}).choices[0], "token_ids")


def test_a_message_has_token_ids(chat_client: openai.OpenAI, chat_gateway: RunningGateway):
    expected = rpc(chat_gateway, SAID)
    asked: Any = {"model": "llama-torch.float32", "messages": SAID, "extra_body": {"return_token_ids": True}, **SAMPLED}
    whole: Any = chat_client.chat.completions.create(**asked)
    assert [tuple(one.token_ids) for one in whole.choices] == [one.token_ids for one in expected]
    prompt_ids = [*expected[0].started.prompt_token_ids]
    assert whole.prompt_token_ids == prompt_ids
    streamed: list[list[int]] = [[], []]
    prompts: list[Any] = []
    for part in chat_client.chat.completions.create(**asked, stream=True):
        prompts += [part.prompt_token_ids] if hasattr(part, "prompt_token_ids") else []  # type: ignore[attr-defined]
        for choice in part.choices:
            streamed[choice.index] += choice.token_ids
    assert [*map(tuple, streamed)] == [one.token_ids for one in expected]
    assert prompts == [prompt_ids] * 2


@pytest.mark.parametrize("is_chat", [False, True])
def test_each_event_has_the_usage_of_its_choice_so_far(chat_client: openai.OpenAI, is_chat: bool):
    create: Any = chat_client.chat.completions.create if is_chat else chat_client.completions.create
    prompt: Any = {"messages": SAID} if is_chat else {"prompt": PROMPT}
    asked = {"model": "llama-torch.float32", **prompt, **SAMPLED, "stream": True}
    parts = list(create(**asked, **ALWAYS))
    so_far = [0, 0]
    for part in parts[:-1]:
        (choice,) = part.choices
        assert part.usage.completion_tokens >= so_far[choice.index]
        so_far[choice.index] = part.usage.completion_tokens
        assert part.usage.prompt_tokens == parts[-1].usage.prompt_tokens
        assert part.usage.total_tokens == part.usage.prompt_tokens + part.usage.completion_tokens
    assert so_far == [12, 12]
    assert parts[-1].usage.completion_tokens == 24
    alone = create(**asked, stream_options={"include_usage": False, "continuous_usage_stats": True})
    assert all(part.usage is None for part in alone)  # as in vLLM, where it needs include_usage


@pytest.mark.parametrize("prompt", [PROMPT, [5, 6, 7]])
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_is_echoed_alone(client: openai.OpenAI, gateway: RunningGateway, prompt: Any, stream: bool):
    with gateway.rpc() as rpc_client:
        expected = rpc_client.generate(prompt, max_tokens=1, prompt_logprobs=True, top_candidates=1)
    asked: Any = {"prompt": prompt, "max_tokens": 0, "echo": True, "logprobs": 1, "n": 2, "model": "target"}
    options: Any = {"stream_options": {"include_usage": True}} if stream else {}
    answer: Any = client.completions.create(**asked, stream=stream, **options)
    texts, logprobs, ends, usage = ["", ""], [[], []], [], None
    for part in answer if stream else [answer]:
        usage = part.usage
        for choice in part.choices:
            texts[choice.index] += choice.text
            logprobs[choice.index] += choice.logprobs.token_logprobs if choice.logprobs else []
            ends += [choice.finish_reason] if choice.finish_reason else []
    assert texts == [b"".join(token.bytes for token in expected.prompt_records).decode()] * 2
    assert logprobs == [[token.raw_logprob for token in expected.prompt_records]] * 2
    assert ends == ["length"] * 2
    assert (usage.prompt_tokens, usage.completion_tokens) == (expected.usage.prompt_tokens, 0)


def test_an_answer_without_tokens_needs_an_echo(client: openai.OpenAI):
    for fields in ({"max_tokens": 0}, {"n_predict": 0}):
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(model="target", prompt="a", extra_body=fields)
        assert refused.value.param == next(iter(fields))
        assert "needs echo" in refused.value.message
