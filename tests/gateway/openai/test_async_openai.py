"""OpenAI's own client for asyncio: the RPC's bytes, objects that are parsed, and RPCs that end with their task."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict

from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.loop_thread import PATIENCE_SECONDS
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.predictors import GatePredictor

MODEL = "llama-torch.float32"  # of the random checkpoint
SAID: Any = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "A last-in, first-out stack"}]
SAMPLED: dict[str, Any] = {"model": MODEL, "temperature": 0.7, "extra_body": {"seed": 5}}
MOST = 200


class Colour(BaseModel):
    """What an answer is parsed as."""

    model_config = ConfigDict(extra="forbid")
    name: Literal["red", "green", "blue"]
    is_dark: bool


def connect(gateway: RunningGateway) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture
async def client(chat_gateway: RunningGateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with connect(chat_gateway) as made:
        yield made


async def test_a_response_has_the_bytes_of_the_rpc(client: openai.AsyncOpenAI, chat_gateway: RunningGateway):
    async with chat_gateway.rpc_async() as rpc:
        result = await rpc.generate(SAID, temperature=0.7, seed=5, max_tokens=40, message_deltas=True)
    assert result.message is not None
    expected = result.message.content
    asked: Any = {"input": SAID, "max_output_tokens": 40, **SAMPLED}
    whole = await client.responses.create(**asked)
    told = [event async for event in await client.responses.create(stream=True, **asked)]
    assert whole.output_text == expected
    assert "".join(event.delta for event in told if event.type == "response.output_text.delta") == expected
    assert told[-1].response.output_text == expected
    async with client.responses.stream(**asked) as stream:
        *_, last = [event async for event in stream]
    assert (last.type, last.response.output_text) == ("response.incomplete", expected)


async def test_an_object_is_parsed_wherever_it_is_asked_for(client: openai.AsyncOpenAI):
    chat: Any = {"messages": SAID, "max_completion_tokens": MOST, "response_format": Colour, **SAMPLED}
    response: Any = {"input": SAID, "max_output_tokens": MOST, "text_format": Colour, **SAMPLED}
    parsed: list[Any] = [
        (await client.chat.completions.parse(**chat)).choices[0].message.parsed,
        (await client.responses.parse(**response)).output_parsed,
    ]
    async with client.chat.completions.stream(**chat) as events:
        parsed.append((await events.get_final_completion()).choices[0].message.parsed)
    async with client.responses.stream(**response) as more:
        parsed.append((await more.get_final_response()).output_parsed)
    assert isinstance(parsed[0], Colour)
    assert parsed == parsed[:1] * 4


@pytest.fixture
def gate() -> GatePredictor:
    predictor = GatePredictor(num_tokens=12)
    predictor.gate.clear()
    return predictor


@pytest.fixture
def held(model: Path, gate: GatePredictor) -> Iterator[RunningTarget]:
    """A target that holds in the middle of an answer."""
    with target_server(model, predictor=gate) as running:
        yield running
        gate.gate.set()


async def read(client: openai.AsyncOpenAI, api: str, stream: bool, begun: asyncio.Event) -> None:
    """Ask for an answer that the limit alone ends, and read it; a stream has begun with its first event."""
    more: dict[str, Any] = {**SAMPLED, "stream": stream, "extra_body": {"seed": 5, "ignore_eos": True}}
    if api == "completions":
        answer: Any = await client.completions.create(prompt="a", max_tokens=MOST, **more)
    elif api == "chat":
        answer = await client.chat.completions.create(messages=SAID, max_completion_tokens=MOST, **more)
    else:
        answer = await client.responses.create(input=SAID, max_output_tokens=MOST, **more)
    async for _ in answer:
        begun.set()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ["completions", "chat", "responses"])
async def test_a_task_that_is_cancelled_ends_its_rpc(held: RunningTarget, gate: GatePredictor, api: str, stream: bool):
    """Its sequence ends where it was, and the blocks come free."""
    begun = asyncio.Event()
    with RunningGateway(held.address) as gateway:
        async with connect(gateway) as client:
            reading = asyncio.create_task(read(client, api, stream, begun))
            assert await asyncio.to_thread(gate.is_reached.wait, PATIENCE_SECONDS)
            if stream:
                await begun.wait()
            (sequence,) = held.engine.scheduler.sequences
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await asyncio.to_thread(wait_until, lambda: held.model.statistics.num_live == 0)
            gate.gate.set()
            await asyncio.to_thread(held.assert_all_free)
    assert 0 < sequence.num_generated < MOST
