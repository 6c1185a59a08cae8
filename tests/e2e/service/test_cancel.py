"""A cancelled call frees what was held for it, at once, and disturbs no other."""

import asyncio
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from outrider import AsyncClient, Cancelled, Client, DeadlineExceeded, FinishReason
from services.engine.config import EngineConfig
from services.engine.decoder.native import isas
from services.target.generation.engine import TargetEngine
from services.target.scheduling import scheduler
from services.target.scheduling.scheduled_rows import ScheduledRows
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.harness.servers.loop_thread import PATIENCE_SECONDS
from tests.harness.servers.server import RunningTarget, target_server

PROMPT = prompt_of("llama", 7)
DEMO_PROMPT = prompt_of("demo", 5)
LONG = 10_000
ENDLESS = {"max_tokens": 1900, "ignore_eos": True}
HOUR = 3600.0


def stepper_with(predictions: str) -> Stepper:
    """A stepper whose predictions are all wrong, or that has none."""
    wrong = ScriptedPredictor(lambda name: ("wrong", [9] * LONG), vocab_size=512)
    return Stepper("llama", predictors=[wrong] if predictions == "wrong" else [], prefill_chunk=16, num_blocks=40)


def assert_all_free(stepper: Stepper):
    stepper.blocks.check_integrity([])
    assert stepper.blocks.num_free == stepper.blocks.num_blocks


@pytest.mark.parametrize("predictions", ["none", "wrong"])
@pytest.mark.parametrize("num_steps", [0, 1, 3, 6, 20])
async def test_cancelling_frees_all_blocks_at_any_time(num_steps: int, predictions: str):
    """The prompt takes six steps: cancelled while it waits, in mid prefill, at the first token, and in mid decode."""
    stepper = stepper_with(predictions)
    generation = stepper.submit(request(PROMPT, max_tokens=200, num_predictions=5))
    for _ in range(num_steps):
        stepper.step()
    assert (stepper.blocks.num_free < stepper.blocks.num_blocks) == (num_steps > 0)
    assert (generation.sequence.num_generated > 0) == (num_steps >= 6)
    stepper.drop(generation)
    assert_all_free(stepper)
    assert not stepper.step()


async def test_cancelling_one_leaves_the_others_their_bytes():
    wanted = [request(prompt_of("llama", index), seed=index, temperature=0.8) for index in range(4)]
    alone = [await stepper_with("none").complete(one) for one in wanted]
    stepper = stepper_with("wrong")
    others = [stepper.submit(one) for one in wanted]
    cancelled = [stepper.submit(request(PROMPT, seed=50 + count, max_tokens=200)) for count in range(3)]
    for count, generation in enumerate(cancelled):
        for _ in range(2 + 3 * count):
            stepper.step()
        stepper.drop(generation)
    stepper.run()
    assert [await generation.transcript() for generation in others] == alone
    assert_all_free(stepper)


@pytest.mark.parametrize("num_steps", [0, 2, 15])
async def test_a_deadline_ends_a_stream_within_one_step(num_steps: int, monkeypatch: pytest.MonkeyPatch):
    whole = await stepper_with("none").complete(request(PROMPT, max_tokens=200))
    stepper = stepper_with("wrong")
    clock = time.monotonic
    deadline = clock() + HOUR
    generation = stepper.submit(request(PROMPT, max_tokens=200, deadline=deadline, num_predictions=5))
    for _ in range(num_steps):
        stepper.step()
    assert not generation.sequence.is_finished
    later = SimpleNamespace(monotonic=lambda: clock() + HOUR)  # for the scheduler alone: other services watch the clock
    monkeypatch.setattr(scheduler, "time", later)
    stepper.step()
    assert_all_free(stepper)
    transcript = await generation.transcript()
    assert transcript.reason == "deadline"
    assert transcript.token_ids == whole.token_ids[: len(transcript.token_ids)]
    assert whole.text.startswith(transcript.text.rstrip("\ufffd"))


@pytest.mark.parametrize("until", ["first pass", "prefilled", "tenth token"])
async def test_a_cancelled_sequence_stays_for_one_step_at_most(until: str):
    config = EngineConfig(
        model=folder("demo"), isa=isas()[0], threads=1, prefill_chunk=16, kv_blocks=64, stream_capacity=LONG
    )
    engine = TargetEngine.open(config, on_failure=lambda: None)
    try:
        (generation,) = await engine.submit([request(DEMO_PROMPT, max_tokens=1900)])
        await _until(lambda: generation.number in engine._sequences)
        sequence = engine._sequences[generation.number]
        reached: dict[str, Callable[[], bool]] = {
            "first pass": lambda: sequence.text.num_computed > 0,
            "prefilled": lambda: sequence.num_generated > 0,
            "tenth token": lambda: sequence.num_generated >= 10,
        }
        await _until(reached[until])
        late_steps = _count_steps_with(engine, sequence)
        engine.cancel(generation.number)
        late_steps.clear()
        await _until(lambda: engine.blocks.num_free == engine.blocks.num_blocks)
        assert len(late_steps) <= 1
        engine.blocks.check_integrity([])
        assert not sequence.is_finished
    finally:
        engine.close()


def _count_steps_with(engine: TargetEngine, sequence: object) -> list[None]:
    steps: list[None] = []
    schedule = engine.scheduler.schedule

    def counted() -> list[ScheduledRows]:
        batch = schedule()
        steps.extend(None for rows in batch if rows.sequence is sequence)
        return batch

    engine.scheduler.schedule = counted  # type: ignore[method-assign]
    return steps


@pytest.fixture(scope="module")
def target() -> Iterator[RunningTarget]:
    with target_server(folder("demo"), stream_capacity=32) as running:
        yield running


def test_a_client_that_cancels_frees_the_server(target: RunningTarget):
    with Client(target.address) as client:
        stream = client.stream(DEMO_PROMPT, **ENDLESS)
        chunks = iter(stream)
        next(chunks)
        stream.cancel()
        with pytest.raises(Cancelled):
            list(chunks)
        target.assert_all_free()


def test_a_client_that_leaves_the_loop_frees_the_server(target: RunningTarget):
    with Client(target.address) as client:
        with client.stream(DEMO_PROMPT, **ENDLESS) as stream:
            next(iter(stream))
        target.assert_all_free()


async def test_a_client_out_of_time_has_a_prefix_and_frees_the_server(target: RunningTarget):
    """Whether the server's own end arrives before the client's deadline is a race that both may win."""
    whole = await Stepper("demo").complete(request(DEMO_PROMPT, max_tokens=400))
    async with AsyncClient(target.address) as client:
        stream = client.stream(DEMO_PROMPT, timeout=0.25, seed=1, temperature=1.0, **ENDLESS)
        try:
            async for _ in stream:
                pass
            assert stream.result.finish_reason is FinishReason.DEADLINE
        except DeadlineExceeded:
            pass
        received = stream.received.token_ids
        assert len(received) < ENDLESS["max_tokens"]
        assert received[:400] == whole.token_ids[: len(received)]
    target.assert_all_free()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)
