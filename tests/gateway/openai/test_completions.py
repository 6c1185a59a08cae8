"""Completions by OpenAI's own client have the bytes of the RPC, however they are asked for."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc
import openai
import pytest

from outrider import Result, Token
from services.gateway.openai.completions.writer import TokenLogprobs
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import Event, Request, ScriptedServer, ScriptedServicer
from tests.harness.servers.server import wait_until

PROMPT = "def read(self, path):"
SAMPLED: dict[str, Any] = {"temperature": 0.8, "seed": 17, "max_tokens": 12}
LONG = {**SAMPLED, "max_tokens": 32}  # in which a draft is right and wrong


def rpc(gateway: RunningGateway, prompt: Any = PROMPT, **options: Any) -> Result:
    with gateway.rpc() as client:
        return client.generate(prompt, **{**SAMPLED, **options})


@pytest.mark.parametrize("speculation", ["never", "auto", "always"])
def test_one_seed_gives_the_bytes_of_the_rpc(client: openai.OpenAI, gateway: RunningGateway, speculation: str):
    expected = rpc(gateway, speculation="never")
    asked = {"model": "target", "prompt": PROMPT, **SAMPLED, "extra_body": {"speculation": speculation}}
    whole = client.completions.create(**asked)
    streamed = list(client.completions.create(**asked, stream=True))
    assert whole.choices[0].text == "".join(one.choices[0].text for one in streamed) == expected.text
    assert whole.choices[0].finish_reason == streamed[-1].choices[0].finish_reason == "length"
    assert whole.system_fingerprint == expected.started.fingerprint
    assert len({one.id for one in streamed}) == 1


def test_ids_are_a_prompt_as_their_text_is(client: openai.OpenAI, gateway: RunningGateway):
    expected = rpc(gateway)
    answer = client.completions.create(model="target", prompt=[*expected.started.prompt_token_ids], **SAMPLED)
    assert answer.choices[0].text == expected.text


@pytest.mark.parametrize("stream", [False, True])
def test_samples_and_several_prompts_are_choices_in_order(client: openai.OpenAI, gateway: RunningGateway, stream: bool):
    prompts = [PROMPT, "import os", "class Stack"]
    expected = [rpc(gateway, prompt, num_samples=2) for prompt in prompts]
    answer: Any = client.completions.create(model="target", prompt=prompts, n=2, stream=stream, **SAMPLED)
    texts = [""] * 6
    for part in answer if stream else [answer]:
        for choice in part.choices:
            texts[choice.index] += choice.text
    assert texts == [text for one in expected for text in (one.text, one.further_samples[0].text)]


@pytest.mark.parametrize("stream", [False, True])
def test_the_best_of_several_come_in_order_of_rank(client: openai.OpenAI, gateway: RunningGateway, stream: bool):
    expected = rpc(gateway, num_samples=2, best_of=5)
    assert expected.started.seed != rpc(gateway).started.seed
    answer: Any = client.completions.create(model="target", prompt=PROMPT, n=2, best_of=5, stream=stream, **SAMPLED)
    texts = ["", ""]
    for part in answer if stream else [answer]:
        for choice in part.choices:
            texts[choice.index] += choice.text
    assert texts == [expected.text, expected.further_samples[0].text]


def test_speculation_statistics_are_returned(client: openai.OpenAI):
    asked = {"model": "target", "prompt": PROMPT, **LONG, "extra_body": {"speculation": "always"}}

    def streamed() -> Any:
        *_, last = client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
        return last

    def has_erred(ask: Callable[[], Any]) -> bool:
        answer = ask()
        usage, stats = answer.usage, answer.metrics["speculative_decoding"]
        accepted = stats["num_accepted_draft_tokens"]
        rejected, details = stats["num_draft_tokens"] - accepted, usage.completion_tokens_details
        assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (accepted, rejected)
        assert usage.completion_tokens == LONG["max_tokens"]
        assert usage.total_tokens == usage.prompt_tokens + LONG["max_tokens"]
        assert sum(stats["acceptance_histogram"]) == stats["num_spec_steps"]
        return accepted > 0 < rejected

    for ask in (streamed, partial(client.completions.create, **asked)):
        wait_until(partial(has_erred, ask))  # on a busy machine a draft may be too late for all of an answer


@pytest.mark.parametrize("stream", [False, True])
def test_an_echo_with_logprobs_has_an_entry_for_each_token(
    client: openai.OpenAI, gateway: RunningGateway, stream: bool
):
    """As lm-eval reads it: those of the prompt and one more."""
    expected = rpc(gateway, max_tokens=1, temperature=0.0, top_candidates=1, prompt_logprobs=True)
    ids = [*expected.started.prompt_token_ids]
    asked = {"model": "target", "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0, "seed": 17}
    answer: Any = client.completions.create(prompt=ids, stream=stream, **asked)
    choices = [part.choices[0] for part in (answer if stream else [answer])]
    told = [one.logprobs for one in choices if one.logprobs]
    tokens = [*expected.prompt_records, *expected.tokens]
    assert "".join(one.text for one in choices) == PROMPT + expected.text
    assert [text for one in told for text in one.tokens] == [token.bytes.decode() for token in tokens]
    assert [number for one in told for number in one.token_logprobs] == [token.raw_logprob for token in tokens]
    assert len(tokens) == len(ids) + 1
    offsets = [offset for one in told for offset in one.text_offset]
    assert offsets == [len("".join(token.text for token in tokens[:count])) for count in range(len(tokens))]
    tops = [top for one in told for top in one.top_logprobs]
    assert tops[0] is None
    assert all(max(top, key=top.get) == tokens[-1].text for top in tops[-1:])


@pytest.mark.parametrize("prompt", ["Hello world", " a <s> b", [1, 5, 9]])
@pytest.mark.parametrize("stream", [False, True])
def test_each_token_is_found_at_its_offset(chat_client: openai.OpenAI, prompt: Any, stream: bool):
    """This model's tokenizer begins each text with a token that the text does not show."""
    asked: dict[str, Any] = {"model": "", "max_tokens": 2, "echo": True, "logprobs": 0, "extra_body": {"seed": 1}}
    answer: Any = chat_client.completions.create(prompt=prompt, stream=stream, **asked)
    choices = [part.choices[0] for part in (answer if stream else [answer])]
    text = "".join(one.text for one in choices)
    told = [one.logprobs for one in choices if one.logprobs]
    places = [place for one in told for place in zip(one.text_offset, one.tokens, strict=True)]
    assert [text[offset : offset + len(token)] for offset, token in places] == [token for _, token in places]
    assert "".join(token for _, token in places) == text


def test_a_blank_that_a_tokenizer_adds_has_no_place():
    """As SentencePiece adds it before the first word; other tokenizers add a token at the end."""
    tokens = [
        Token(0, data, "", None, None, (), False, None, None, None, None)
        for data in (b"<s>", b" Hello", b" caf\xc3", b"\xa9", b"</s>")
    ]
    lists = TokenLogprobs("Hello café").lists(tokens, of_prompt=True, with_top=False)
    assert lists["tokens"] == ["", "Hello", "bytes:\\x20\\x63\\x61\\x66\\xc3", "bytes:\\xa9", ""]
    assert lists["text_offset"] == [0, 0, 5, 9, 10]


def test_a_stop_string_ends_the_text_and_is_reported(client: openai.OpenAI, gateway: RunningGateway):
    free = rpc(gateway).text
    stop = free[len(free) // 2 : len(free) // 2 + 3]
    answer = client.completions.create(model="target", prompt=PROMPT, stop=[stop, "never said"], **SAMPLED)
    assert answer.choices[0].text == free[: free.index(stop)]
    assert (answer.choices[0].finish_reason, answer.choices[0].stop_reason) == ("stop", stop)  # type: ignore[attr-defined]


def test_parameters_of_ours_have_their_effect(client: openai.OpenAI, gateway: RunningGateway):
    options: dict[str, Any] = {"banned_strings": ["self"], "min_p": 0.02, "top_k": 40, "repetition_penalty": 1.1}
    answer = client.completions.create(model="target", prompt=PROMPT, extra_body=options, **SAMPLED)
    assert answer.choices[0].text == rpc(gateway, **options).text
    chosen = client.completions.create(model="target", prompt=PROMPT, extra_body={"choice": ["yes", "no"]})
    assert chosen.choices[0].text in ("yes", "no")
    matched = client.completions.create(model="target", prompt=PROMPT, extra_body={"regex": "[0-9]{4}"})
    assert matched.choices[0].text.isdecimal()


async def test_the_async_client_streams_many_at_once(gateway: RunningGateway):
    expected = [rpc(gateway, seed=seed).text for seed in range(6)]
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:

        async def stream(seed: int) -> str:
            asked = {"model": "target", "prompt": PROMPT, **SAMPLED, "seed": seed}
            return "".join([one.choices[0].text async for one in await client.completions.create(**asked, stream=True)])

        assert await asyncio.gather(*map(stream, range(6))) == expected


@pytest.mark.parametrize("stream", [False, True])
def test_the_seed_of_each_sample_gives_it_alone(client: openai.OpenAI, gateway: RunningGateway, stream: bool):
    answer: Any = client.completions.create(model="target", prompt=PROMPT, n=2, stream=stream, **SAMPLED)
    texts, seeds = [""] * 2, [0] * 2
    for part in answer if stream else [answer]:
        for choice in part.choices:
            texts[choice.index] += choice.text
            if choice.finish_reason is not None:
                seeds[choice.index] = choice.outrider["seed"]
    assert seeds[0] == SAMPLED["seed"]
    assert [rpc(gateway, seed=seed).text for seed in seeds] == texts


class LateServicer(ScriptedServicer):
    """Begins to answer "late" once another answer, larger than what is sent to those who do not read, is taken."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_taken = threading.Event()

    def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:  # noqa: N802
        """Hold the late prompt back until the other answer is read."""
        is_late = request.prompt.text == "late"
        if is_late and not self._is_taken.wait(50):
            context.abort(grpc.StatusCode.INTERNAL, "the other answer is not read")
        for event in super().StreamGenerate(request, context):
            if event.HasField("chunk") and not is_late:
                event.chunk.text = "a" * (1 << 19)
            yield event
        self._is_taken.set()


def test_choices_that_have_begun_are_read_while_another_waits():
    with (
        ScriptedServer(servicer_type=LateServicer, tokens_per_chunk=1) as server,
        RunningGateway(server.address) as one,
    ):
        answer = one.post("/v1/completions", {"prompt": ["soon", "late"], "seed": 1, "max_tokens": 20})
    assert answer.status_code == 200
    assert [len(choice["text"]) > 1000 for choice in answer.json()["choices"]] == [True, False]
