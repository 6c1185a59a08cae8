"""With too small a KV cache every stream still gets its bytes, and a slow reader stops no other stream."""

import asyncio

import pytest

from outrider import AsyncClient, Result
from services.engine.request import Request
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Generation, Stepper, request
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of, random_prompt
from tests.e2e.matrix.transcript import Transcript
from tests.harness.servers.loop_thread import PATIENCE_SECONDS
from tests.harness.servers.server import RunningTarget, target_server

MODEL = "gemma2"
LONG_PROMPT = random_prompt("long", 300)
CAPACITY = 8  # tokens that a consumer may fall behind
MOST_PREDICTIONS = 5
FEW_BLOCKS = 12


def eight_requests(**fields: object) -> list[Request]:
    fields = {"temperature": 0.9, "max_tokens": 128, **fields}
    return [request(prompt_of(MODEL, i), request_id=f"test-{i}", seed=i, **fields) for i in range(8)]


async def each_alone(wanted: list[Request], model: str = MODEL) -> list[Transcript]:
    return [await Stepper(model).complete(one) for one in wanted]


@pytest.mark.parametrize("model", [MODEL, "qwen3_5"])
async def test_eight_streams_on_few_blocks_all_finish_with_their_bytes(model: str):
    wanted = eight_requests()
    stepper = Stepper(model, num_blocks=FEW_BLOCKS, prefill_chunk=16)
    generations = [stepper.submit(one) for one in wanted]
    stepper.run()
    assert stepper.most_sequences > 1
    assert stepper.scheduler.num_preemptions > 0
    assert [await generation.transcript() for generation in generations] == await each_alone(wanted, model)
    assert stepper.blocks.num_free == FEW_BLOCKS


@pytest.mark.parametrize("model", [MODEL, "qwen3_5"])
async def test_predictions_preempt_no_stream_and_change_nothing(model: str):
    wanted = eight_requests(num_predictions=MOST_PREDICTIONS)
    alone = await each_alone(wanted, model)
    scripts = {f"test-{index}": ("mixed", transcript.token_ids) for index, transcript in enumerate(alone)}
    stepper = Stepper(model, num_blocks=FEW_BLOCKS, predictors=[ScriptedPredictor(scripts.get, vocab_size=512)])
    generations = [stepper.submit(one) for one in wanted]
    stepper.run()
    assert [await generation.transcript() for generation in generations] == alone
    ends = [generation.end for generation in generations]
    assert sum(sum(end.speculation.accepted) for end in ends) > 0
    assert sum(end.preemptions for end in ends) > 0


async def test_the_oldest_stream_is_never_preempted():
    stepper = Stepper(MODEL, num_blocks=FEW_BLOCKS)
    generations = [stepper.submit(one) for one in eight_requests()]
    stepper.run()
    for generation in generations:
        await generation.read()
    preemptions = [generation.end.preemptions for generation in generations]
    assert preemptions[0] == 0
    assert sum(preemptions) > 0


async def test_an_unread_stream_pauses_and_resumes_with_the_same_bytes():
    slow_request, *wanted = eight_requests(num_predictions=MOST_PREDICTIONS, prompt_logprobs=False)
    alone = await each_alone([slow_request, *wanted])
    right = ScriptedPredictor(lambda name: ("right", alone[0].token_ids), vocab_size=512)
    stepper = Stepper(MODEL, predictors=[right], stream_capacity=CAPACITY)
    slow = stepper.submit(slow_request)
    stepper.run()
    assert CAPACITY <= slow.sequence.num_generated <= CAPACITY + MOST_PREDICTIONS
    assert not slow.sequence.is_finished
    assert await _read_while_stepping(stepper, slow) == alone[0]


async def test_a_slow_reader_gives_up_its_blocks_and_stops_no_stream():
    slow_request = request(LONG_PROMPT, seed=70, temperature=0.9, max_tokens=60, prompt_logprobs=False)
    wanted = eight_requests()
    alone = await each_alone([slow_request, *wanted])
    stepper = Stepper(MODEL, num_blocks=FEW_BLOCKS, stream_capacity=CAPACITY)
    slow = stepper.submit(slow_request)
    stepper.run()
    held = len(slow.sequence.text.blocks)
    assert held > FEW_BLOCKS // 2
    others = [stepper.submit(one) for one in wanted]
    transcripts = await asyncio.gather(*(_read_while_stepping(stepper, generation) for generation in others))
    assert list(transcripts) == alone[1:]
    assert slow.sequence.num_preemptions > 0
    assert slow.sequence.num_generated <= CAPACITY + 1
    assert await _read_while_stepping(stepper, slow) == alone[0]
    assert stepper.blocks.num_free == FEW_BLOCKS


async def test_over_the_wire_one_client_stops_reading_and_seven_finish():
    """Every token of the slow stream is a kilobyte, and its connection takes in no more than it is asked for."""
    channel = [("grpc.http2.bdp_probe", 0)]
    options = {"max_tokens": 700, "seed": 70, "ignore_eos": True, "top_candidates": 20}
    with target_server(folder(MODEL), kv_blocks=36, stream_capacity=CAPACITY) as target:
        async with AsyncClient(target.address, channel_arguments=channel) as client, asyncio.timeout(PATIENCE_SECONDS):
            whole = await client.generate(LONG_PROMPT, **options)
            slow = client.stream(LONG_PROMPT, **options)
            chunks = aiter(slow)
            await anext(chunks)
            answers = await asyncio.gather(*(_answer(client, index) for index in range(7)))
            assert all(len(answer.token_ids) == 100 for answer in answers)
            while not all(paused_at := _paused_at(target)):  # it takes a little more now and then
                await asyncio.sleep(0.01)
            assert 0 < paused_at[0] < 700
            async for _ in chunks:
                pass
            assert slow.result.tokens == whole.tokens
        target.assert_all_free()


def _paused_at(target: RunningTarget) -> list[int]:
    """For each sequence in the engine how many tokens it has if it is paused, else 0."""
    sequences = target.on_engine_thread(lambda: target.engine.scheduler.sequences)
    return [sequence.num_generated * sequence.is_paused for sequence in sequences]


async def _answer(client: AsyncClient, index: int) -> Result:
    return await client.generate(prompt_of(MODEL, index), max_tokens=100, seed=index, ignore_eos=True)


async def _read_while_stepping(stepper: Stepper, generation: Generation) -> Transcript:
    """Read all available events after each step."""
    reading = asyncio.create_task(generation.transcript())
    while not reading.done():
        stepper.step()
        await asyncio.sleep(0)
    return reading.result()
