"""Random workloads: in any mix, each request gets what it gets alone, and everything ends."""

import asyncio
from itertools import accumulate
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.cache.block_manager import BlockManager
from services.engine.decoder.native import Sampler as NativeSampler
from services.engine.events import Chunk, Event, Finished, Progress, Scheduled
from services.engine.request import CachePolicy, Loop, Request, Share, SpeculationMode, SpeculationPolicy
from services.engine.text.healing import Healing
from services.target.generation.deferred_calls import DeferredCalls
from services.target.generation.sampler import Sampler
from services.target.generation.step import TargetStep
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.lookup_predictor import with_lookup
from services.target.speculation.speculation import Speculation
from tests.unit.random_predictor import RandomPredictor
from tests.unit.sequences import END, VOCAB_SIZE, make_output, make_request, make_stream
from tests.unit.toy_model import DEVICE, Answer, ToyModel, answer_of, generate_alone

BLOCK_SIZE = 4
HEALING = Healing(num_known=0, masked_ids=(*b"aeiou ", END))


class Client:
    """One request and what has been read of its answer so far."""

    def __init__(self, request: Request, random: Random, *, capacity: int, **sequence: Any) -> None:
        self.speed = random.choice([0.05, 0.5, 1.0])
        self.impatience = random.choice([0.0, 0.0, 0.02])
        self.stream = make_stream(capacity)
        self.output = make_output(request, self.stream, **sequence)
        self.sequence = self.output.sequence
        self.events: list[Event] = []
        self.is_cancelled = False
        self._reader = aiter(self.stream)
        self._reading: asyncio.Task[Event] | None = None

    @property
    def is_done(self) -> bool:
        return self.is_cancelled or (bool(self.events) and isinstance(self.events[-1], Finished))

    async def read(self) -> None:
        """Take the next event, if there is one."""
        self._reading = self._reading or asyncio.create_task(anext(self._reader))
        for _ in range(4):
            await asyncio.sleep(0)
        if self._reading.done():
            self.events.append(self._reading.result())
            self._reading = None

    async def leave(self) -> None:
        """Stop reading the stream."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])


class Target:
    """A target with a toy model, and what must hold after each of its steps."""

    def __init__(self, limits: SchedulerConfig, *, num_blocks: int, random: Random) -> None:
        self.limits = limits
        self.blocks = BlockManager(num_blocks=num_blocks, block_size=BLOCK_SIZE, copy_block=self._copy_block)
        self.scheduler = Scheduler(limits, self.blocks)
        self.model = ToyModel(self.blocks, returns_early=random.random() < 0.5)
        self.predictor = RandomPredictor(random)
        self.num_pauses = self.num_copies = 0
        self.lookup, *_ = predictors = with_lookup(self.predictor, long_match=8)
        passing = Random(5)  # the same time in every run, since what is predicted depends on it
        moments = accumulate(iter(lambda: passing.random() / 1000, None))
        speculation = Speculation(predictors, vocab_size=VOCAB_SIZE, clock=moments.__next__)
        self.driver = TargetStep(
            self.scheduler, self.model, Sampler(NativeSampler(DEVICE)), speculation, DeferredCalls()
        )

    def step(self) -> None:
        has_work = any(
            not sequence.is_paused and not self._is_held_up(sequence) for sequence in self.scheduler.sequences
        )
        assert self.driver.step() == has_work
        self.check_blocks()
        if has_work:
            self._check_batch()
        self.num_pauses += any(sequence.is_paused for sequence in self.scheduler.sequences)

    def _is_held_up(self, sequence: Sequence) -> bool:
        """Whether it waits for the prompt that its first sample, whose reader is slow, is to compute."""
        first = sequence.first_sample
        is_awaited = first in self.scheduler.running and not sequence.timings.scheduled
        return is_awaited and first.is_paused and first.text.num_computed < len(sequence.tokens) - 1

    def drop(self, sequence: Sequence) -> None:
        self.driver.drop(sequence)
        assert sequence.text.blocks == []
        self.check_blocks()

    def check_blocks(self) -> None:
        self.blocks.check_integrity(sequence.text for sequence in self.scheduler.sequences)
        self.model.poison_empty_blocks()
        assert all(not sequence.text.blocks for sequence in self.scheduler.waiting)
        for sequence in self.scheduler.running:
            assert len(sequence.text.blocks) <= self.blocks.blocks_for(len(sequence.tokens))

    def _copy_block(self, source: int, target: int) -> None:
        self.num_copies += 1
        self.model.copy_block(source, target)

    def _check_batch(self) -> None:
        batch = self.model.batch
        computed = [rows.sequence for rows in batch]
        assert sum(rows.num_rows for rows in batch) <= self.limits.max_rows
        assert len(computed) == len(set(computed)) <= self.limits.max_sequences
        assert all(rows.num_tokens <= self.limits.prefill_chunk for rows in batch)
        drawn = [rows.sequence for rows in batch if rows.draws and not rows.sequence.is_finished]
        assert all(sequence.num_pending == 1 or _is_just_healed(sequence) for sequence in drawn)
        ready = [sequence for sequence in self.scheduler.running if not sequence.is_paused]
        # Those that might run when rows were handed out: here still, done by this pass, or preempted for it.
        started = [each for each in self.scheduler.sequences if each.timings.scheduled and not each.is_paused]
        if len({sequence.request.share.caller for sequence in (*started, *computed)}) == 1:  # else they take turns
            assert all(batch[0].sequence.timings.scheduled <= sequence.timings.scheduled for sequence in ready)
        assert all(sequence in computed or sequence.num_pending > 1 for sequence in ready)


def _is_just_healed(sequence: Sequence) -> bool:
    return sequence.text.num_computed == sequence.num_prompt - 1


async def serve(target: Target, clients: list[Client], random: Random) -> None:
    """Run until all clients are done; they come at random times, read at random speeds, and some leave early."""
    coming, present = [*clients], []
    num_steps = 0
    while coming or not all(client.is_done for client in present):
        if coming and random.random() < 0.3:
            client = coming.pop()
            target.driver.add(client.output)
            present.append(client)
        target.step()
        for client in present:
            if not client.is_done and random.random() < client.speed:
                await client.read()
            if not client.is_done and random.random() < client.impatience:
                target.drop(client.sequence)
                client.is_cancelled = True
        num_steps += 1
        assert num_steps < 10_000, "no end in sight"
    for client in clients:
        await client.leave()


async def make_client(options: dict, random: Random, *, capacity: int, context_length: int) -> Client:
    """Return a client; `cut` of the tokens of its answer have reached it before."""
    cut = options.pop("cut")
    if options.get("num_samples", 1) > 1:
        cut = 0  # several samples are not continued
    prompt = options.pop("prompt")[: context_length - 1]
    options["healing"] = options.get("healing") if len(prompt) > 1 else None  # as `plan_healing` has it
    whole = await generate_alone(make_request(prompt, **options), context_length=context_length)
    request = make_request(prompt, received=whole.ids[: min(cut, len(whole.ids) - 1)], **options)
    return Client(request, random, capacity=capacity, context_length=context_length)


def further_samples(client: Client, random: Random, *, capacity: int, context_length: int) -> list[Client]:
    """The clients of a request's other samples."""
    first = client.sequence
    samples = [first.request.sample(index) for index in range(1, first.request.num_samples)]
    options = {"capacity": capacity, "context_length": context_length, "first_sample": first}
    return [Client(sample, random, **options) for sample in samples]


async def run_workload(
    limits: SchedulerConfig, num_blocks: int, capacity: int, requests: list[dict], seed: int
) -> tuple[Target, list[Client]]:
    """Serve the requests, and check every answer against the one that it would have been alone."""
    random = Random(seed)
    target = Target(limits, num_blocks=num_blocks, random=random)
    context_length = min(num_blocks * BLOCK_SIZE, 48)
    clients = [
        await make_client({**options}, random, capacity=capacity, context_length=context_length) for options in requests
    ]
    for client in [*clients]:  # the last comes first
        clients[:0] = further_samples(client, random, capacity=capacity, context_length=context_length)
    await serve(target, clients, random)
    for client in clients:
        check_answer(client, await generate_alone(client.sequence.request, context_length=context_length))
    assert target.scheduler.sequences == []
    assert target.blocks.num_free == num_blocks
    assert target.predictor.followed == {}
    assert not target.lookup._index._automata
    return target, clients


def check_answer(client: Client, expected: Answer) -> None:
    if client.is_cancelled:
        return
    assert answer_of(client.events) == expected
    kinds = [type(event) for event in client.events]
    assert kinds == sorted(kinds, key=[Scheduled, Progress, Chunk, Finished].index)
    check_prompt(client)
    records = [record for event in client.events if isinstance(event, Chunk) for record in event.records]
    end = client.events[-1]
    assert end.preemptions == client.sequence.num_preemptions
    assert sum(end.speculation.accepted) == sum(record.predicted for record in records)
    assert end.speculation.offered == sorted(end.speculation.offered, reverse=True)


def check_prompt(client: Client) -> None:
    """Every record of the prompt was sent once, whatever was computed anew; a continuation got none."""
    sequence, request = client.sequence, client.sequence.request
    told = [record for event in client.events if isinstance(event, Progress) for record in event.records]
    reports_prompt = request.output.prompt_logprobs and not request.received
    assert [record.token_id for record in told] == (sequence.tokens[: sequence.num_prompt] if reports_prompt else [])
    assert [record.raw_logprob is None for record in told] == [position == 0 for position in range(len(told))]


# That begin alike, so that the prefix cache has something to find.
BEGINNINGS = st.lists(st.sampled_from([b"ab", b"cde"]), min_size=1, max_size=8).map(b"".join)
REQUESTS = st.fixed_dictionaries(
    {
        "prompt": st.one_of(st.binary(min_size=1, max_size=24), BEGINNINGS),
        "max_tokens": st.integers(1, 24),
        "stop_strings": st.sampled_from([[], [], ["o"], ["th", "qu"]]),
        "include_stop": st.booleans(),
        "loop": st.sampled_from([None, None, Loop(window=2, repetitions=2)]),
        "cache": st.sampled_from([CachePolicy(), CachePolicy(), CachePolicy(salt="x"), CachePolicy(prefix=False)]),
        "share": st.builds(Share, caller=st.sampled_from("aab"), priority=st.integers(-1, 1)),
        "num_samples": st.sampled_from([1, 1, 1, 2, 3]),
        "healing": st.sampled_from([None, None, HEALING]),
        "prompt_logprobs": st.booleans(),
        "cut": st.integers(0, 6),
        "speculation": st.builds(
            SpeculationPolicy, mode=st.sampled_from(SpeculationMode), num_predictions=st.integers(0, 6)
        ),
    }
)


@settings(max_examples=20, derandomize=True, database=None)
@given(
    max_sequences=st.integers(1, 4),
    spare_rows=st.integers(0, 10),
    prefill_chunk=st.integers(1, 12),
    num_blocks=st.integers(1, 20),
    capacity=st.integers(1, 8),
    requests=st.lists(REQUESTS, min_size=1, max_size=7),
    seed=st.integers(0, 2**32),
)
def test_each_request_in_a_workload_gets_its_own_bytes(
    max_sequences, spare_rows, prefill_chunk, num_blocks, capacity, requests, seed
):
    limits = SchedulerConfig(
        max_rows=max_sequences + spare_rows, prefill_chunk=prefill_chunk, max_sequences=max_sequences
    )
    asyncio.run(run_workload(limits, num_blocks, capacity, requests, seed))


def test_the_workload_covers_preemptions_pauses_and_predictions():
    """A crowd on few blocks: there are preemptions, pauses, predictions right and wrong, and prompts found in part."""
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, num_predictions=4)
    options = {"max_tokens": 24, "stop_strings": [], "cut": 2, "speculation": policy}
    requests = [{"prompt": b"the same" + bytes([i]) * 4, **options} for i in range(12)]
    for request in requests[:4]:
        request["num_samples"] = 2
    limits = SchedulerConfig(max_rows=12, prefill_chunk=5, max_sequences=4)
    target, clients = asyncio.run(run_workload(limits, 14, 4, requests, seed=5))
    ends = [client.events[-1] for client in clients if not client.is_cancelled]
    assert target.scheduler.num_preemptions > 0
    assert target.num_pauses > 0
    assert any(end.cached_tokens for end in ends)
    assert target.num_copies > 0
    assert any(client.is_cancelled for client in clients)
    assert sum(sum(end.speculation.offered) for end in ends) > sum(sum(end.speculation.accepted) for end in ends) > 0


def test_readers_that_never_read_keep_no_other_stream_waiting():
    async def serve_one_reader() -> None:
        target = Target(SchedulerConfig(max_rows=8, prefill_chunk=4, max_sequences=2), num_blocks=12, random=Random(1))
        idle = [make_output(make_request(bytes([i]) * 9), capacity=1) for i in range(5)]
        for output in idle:
            target.driver.add(output)
        for _ in range(40):
            target.step()
        assert all(output.sequence.is_paused for output in idle)
        options = {"prompt": b"Hello", "max_tokens": 20, "cut": 0}
        client = await make_client(options, Random(1), capacity=1 << 20, context_length=48)
        target.driver.add(client.output)
        while not client.sequence.is_finished:
            target.step()
        assert target.scheduler.num_preemptions > 0

    asyncio.run(serve_one_reader())
