"""A target with a trivial model and a batch with limits, and what must hold after each of its steps."""

import asyncio
import math
from collections.abc import Sequence as Seq
from random import Random
from typing import Any

import numpy as np

from services.engine.cache.block_manager import BlockManager
from services.engine.decoder.native import Batch, Pass
from services.engine.decoder.native import Sampler as NativeSampler
from services.engine.decoder.native.testing import make_logits
from services.engine.events import Chunk, Event, Finished, FinishReason, FollowCounts, PredictionSource
from services.engine.request import Request
from services.target.generation.deferred_calls import DeferredCalls
from services.target.generation.model_runner import ModelRunner
from services.target.generation.sampler import Sampler
from services.target.generation.step import TargetStep
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.speculation.speculation import Speculation
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import VOCAB_SIZE, make_output, make_request, make_stream
from tests.unit.toy_model import DEVICE, ToyPass

BLOCK_SIZE = 4


def next_tokens(tokens: Any, positions: Any) -> Any:
    """What follows each of these tokens at its position."""
    return (7 * tokens + 13 * positions + 5) % 251


def answer_to(prompt: Seq[int], count: int) -> list[int]:
    tokens = [*prompt]
    for _ in range(count):
        tokens.append(next_tokens(tokens[-1], len(tokens) - 1))
    return tokens[len(prompt) :]


class Clock:
    """Time that passes in passes only, so that a step takes as long as its rows say, on every machine."""

    def __init__(self, seconds_per_row: float) -> None:
        self.seconds_per_row = seconds_per_row
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Decoder:
    """Takes the place of the decoder, after the batch that refuses rows beyond its capacity."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def forward(self, batch: Batch) -> ToyPass:
        self._clock.now += 1.0 + batch.num_rows * self._clock.seconds_per_row
        asked = batch.logit_rows[: batch.num_logits]
        values = np.zeros((batch.num_logits, VOCAB_SIZE), dtype=np.float32)
        values[np.arange(len(asked)), next_tokens(batch.token_ids[asked], batch.positions[asked])] = 1.0
        return ToyPass(make_logits(DEVICE, values))


class Runner(ModelRunner):
    """Keeps the latest batch."""

    batch: list[ScheduledRows]

    def forward(self, scheduled: Seq[ScheduledRows]) -> Pass:
        self.batch = [*scheduled]
        return super().forward(scheduled)


class Guesser(SilentPredictor):
    """Predicts as many as it is asked for and `more`, each of them right with some chance; it says that they take so
    long, which decides whether they are asked for always or only tried now and then.
    """

    def __init__(
        self, random: Random, source: PredictionSource, *, chance: float, more: int = 0, wait: float = 0.0
    ) -> None:
        self.source = source
        self.followed: set[Sequence] = set()
        self._random, self._chance, self._more, self._wait = random, chance, more, wait

    def wait_for(self, sequence: Sequence, count: float) -> float:
        return self._wait

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
        right = answer_to(sequence.tokens, limit + self._more)
        return [token if self._random.random() < self._chance else (token + 1) % 251 for token in right]

    def commit(self, sequence: Sequence) -> FollowCounts:
        self.followed.add(sequence)
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        self.followed.remove(sequence)
        return FollowCounts()


class Client:
    """One request, and what was read of its answer so far."""

    def __init__(
        self, request: Request, *, capacity: int, lag: int, context_length: int, first: Sequence | None
    ) -> None:
        stream = make_stream(capacity)
        self.output = make_output(request, stream, context_length=context_length, first_sample=first)
        self.sequence = self.output.sequence
        self.events: list[Event] = []
        self.is_cancelled = False
        self.reading = asyncio.create_task(self._read(stream, lag))

    async def _read(self, stream: Any, lag: int) -> None:
        async for event in stream:
            self.events.append(event)
            for _ in range(lag):
                await asyncio.sleep(0)

    @property
    def is_done(self) -> bool:
        return self.is_cancelled or self.reading.done()

    def check(self) -> None:
        if self.is_cancelled:
            return
        request, end = self.sequence.request, self.events[-1]
        ids = [record.token_id for event in self.events if isinstance(event, Chunk) for record in event.records]
        assert isinstance(end, Finished)
        assert end.reason in (FinishReason.MAX_TOKENS, FinishReason.CONTEXT_LENGTH)
        assert ids == answer_to(request.prompt, len(ids))
        assert end.reason is FinishReason.CONTEXT_LENGTH or len(ids) == request.stops.max_tokens


class Target:
    """A target whose batch has limits, and what must hold after each of its steps."""

    def __init__(self, limits: SchedulerConfig, *, num_blocks: int, context_length: int, predictors: Any, clock: Clock):
        self.limits, self.context_length, self.predictors = limits, context_length, predictors
        self.blocks = BlockManager(num_blocks=num_blocks, block_size=BLOCK_SIZE, copy_block=lambda source, to: None)
        self.scheduler = Scheduler(limits, self.blocks)
        self.max_blocks = self.blocks.blocks_for(context_length)
        self.runner = Runner(
            Decoder(clock),  # type: ignore[arg-type]
            max_rows=limits.max_rows,
            max_sequences=limits.max_sequences,
            max_blocks=self.max_blocks,
        )
        self.deferred_calls = DeferredCalls()
        self.driver = TargetStep(
            self.scheduler,
            self.runner,
            Sampler(NativeSampler(DEVICE)),
            Speculation(predictors, vocab_size=VOCAB_SIZE, clock=clock.monotonic),
            self.deferred_calls,
        )

    def step(self) -> None:
        before = {sequence: _progress(sequence) for sequence in self.scheduler.sequences}
        ready = [sequence for sequence in before if not sequence.is_paused and not self._is_held_up(sequence)]
        assert self.driver.step() == bool(ready)
        self.blocks.check_integrity(sequence.text for sequence in self.scheduler.sequences)
        if ready:
            check_limits(self.runner.batch, self.limits, self.max_blocks)
            oldest = self.runner.batch[0].sequence
            assert oldest.is_finished or _progress(oldest) > before[oldest]
            running = [sequence for sequence in self.scheduler.running if not sequence.is_paused]
            assert all(oldest.timings.scheduled <= sequence.timings.scheduled for sequence in running)

    def _is_held_up(self, sequence: Sequence) -> bool:
        """Whether it waits for the prompt that its first sample, whose reader is slow, is to compute."""
        first = sequence.first_sample
        if first is None or first not in self.scheduler.running or sequence.timings.scheduled:
            return False
        return first.is_paused and first.text.num_computed < len(sequence.tokens) - 1

    def check_empty(self) -> None:
        assert self.scheduler.sequences == []
        assert self.blocks.num_free == self.blocks.num_blocks
        assert all(predictor.followed == set() for predictor in self.predictors)


def _progress(sequence: Sequence) -> tuple[int, int]:
    return len(sequence.tokens), sequence.text.num_computed


def check_limits(batch: list[ScheduledRows], limits: SchedulerConfig, max_blocks: int) -> None:
    assert sum(rows.num_rows for rows in batch) <= limits.max_rows
    assert sum(rows.num_logits for rows in batch) <= limits.max_rows
    assert all(rows.num_logits <= rows.num_rows for rows in batch)
    assert all(rows.num_tokens <= limits.prefill_chunk for rows in batch)
    assert len(batch) == len({rows.sequence for rows in batch}) <= limits.max_sequences
    assert all(len(rows.sequence.text.blocks) <= max_blocks for rows in batch)


async def serve(
    target: Target, requests: list[dict[str, Any]], random: Random, *, capacity: int, most_lag: int, impatience: float
) -> list[Client]:
    """Run until all are done; they come at random times, read at random speeds, and some leave early."""
    coming = [make_request(**{"stop_ids": [], **options}) for options in requests]
    clients: list[Client] = []
    for _ in range(20_000):
        if coming and random.random() < 0.3:
            clients += _clients_of(coming.pop(), target, random, capacity, most_lag)
        target.step()
        for _ in range(3):
            await asyncio.sleep(0)
        for client in clients:
            if not client.is_done and random.random() < impatience:
                target.driver.drop(client.sequence)
                client.is_cancelled = client.reading.cancel()
        if not coming and all(client.is_done for client in clients):
            return clients
    raise AssertionError("no end in sight")


def _clients_of(request: Request, target: Target, random: Random, capacity: int, most_lag: int) -> list[Client]:
    """One client for each sample."""
    clients: list[Client] = []
    for index in range(request.num_samples):
        client = Client(
            request.sample(index) if index else request,
            capacity=capacity,
            lag=random.randint(0, most_lag),
            context_length=target.context_length,
            first=clients[0].sequence if clients else None,
        )
        target.driver.add(client.output)
        clients.append(client)
    return clients


async def run(
    limits: SchedulerConfig,
    requests: list[dict[str, Any]],
    random: Random,
    *,
    num_blocks: int,
    context_length: int,
    predictors: list[Guesser],
    seconds_per_row: float = 0.3,
    capacity: int = 1 << 20,
    most_lag: int = 0,
    impatience: float = 0.0,
) -> Target:
    clock = Clock(seconds_per_row)
    target = Target(limits, num_blocks=num_blocks, context_length=context_length, predictors=predictors, clock=clock)
    clients = await serve(target, requests, random, capacity=capacity, most_lag=most_lag, impatience=impatience)
    for client in clients:
        client.check()
    await asyncio.gather(*(client.reading for client in clients), return_exceptions=True)
    target.check_empty()
    target.deferred_calls.close()
    return target
