"""TargetStep: how a sequence comes, ends and goes, and in which order its consumer hears of it."""

import math
import time
from collections.abc import Sequence as Seq
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from services.engine.cache.block_manager import BlockManager
from services.engine.decoder.native import Sampler as NativeSampler
from services.engine.events import (
    Aborted,
    Chunk,
    Failed,
    Finished,
    FinishReason,
    FollowCounts,
    NoSpeculation,
    PredictionSource,
    Progress,
    Scheduled,
    SourceStats,
    SpeculationStats,
)
from services.engine.request import OutputOptions, Request, SpeculationMode, SpeculationPolicy
from services.target.generation.deferred_calls import DeferredCalls
from services.target.generation.sampler import Sampler
from services.target.generation.step import TargetStep
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream
from services.target.speculation.speculation import Speculation
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import VOCAB_SIZE, make_output, make_request
from tests.unit.toy_model import DEVICE, ToyModel, next_token

NUM_BLOCKS = 32
REPORTED = OutputOptions(pass_reports=True)


class Foresight(SilentPredictor):
    """Predicts what will be drawn, and knows whom it follows."""

    def __init__(self) -> None:
        self.followed: set[Sequence] = set()
        self.num_tokens: list[int] = []  # of the sequences, at each commit

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        history = [*sequence.tokens]
        for _ in range(limit):
            history.append(next_token(history))
        return history[len(sequence.tokens) :]

    def commit(self, sequence: Sequence) -> FollowCounts:
        self.followed.add(sequence)
        self.num_tokens.append(len(sequence.tokens))
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        self.followed.remove(sequence)
        return FollowCounts()


class Target:
    """A target's step with a toy model, which computes as a CPU does or, if it `returns_early`, as a GPU."""

    def __init__(self, *, returns_early: bool) -> None:
        self.blocks = BlockManager(num_blocks=NUM_BLOCKS, block_size=4)
        self.scheduler = Scheduler(SchedulerConfig(max_rows=16, prefill_chunk=4, max_sequences=4), self.blocks)
        self.predictor = Foresight()
        speculation = Speculation([self.predictor], vocab_size=VOCAB_SIZE)
        self.model = ToyModel(self.blocks, returns_early=returns_early)
        self.driver = TargetStep(
            self.scheduler, self.model, Sampler(NativeSampler(DEVICE)), speculation, DeferredCalls()
        )

    def add(self, request: Request) -> tuple[Sequence, TokenStream]:
        output = make_output(request)
        self.driver.add(output)
        return output.sequence, output.sequence.stream

    def is_empty(self) -> bool:
        is_free = self.blocks.num_free == NUM_BLOCKS
        return is_free and self.scheduler.sequences == [] and self.predictor.followed == set()


@pytest.fixture(params=[False, True], ids=["cpu", "gpu"])
def target(request: pytest.FixtureRequest) -> Target:
    return Target(returns_early=request.param)


async def read(stream: TokenStream) -> list:
    return [event async for event in stream if not isinstance(event, Scheduled)]


async def test_without_sequences_there_is_no_step(target: Target):
    assert not target.driver.step()


async def test_progress_comes_before_tokens_and_the_end_is_last(target: Target):
    _, stream = target.add(make_request(b"0123456789", max_tokens=3, stop_ids=[]))
    target.driver.step()
    assert isinstance(await anext(aiter(stream)), Scheduled)
    assert await anext(aiter(stream)) == Progress(4, 10)
    while target.driver.step():
        pass
    progress, chunk, end = await read(stream)
    assert progress == Progress(8, 10)
    assert len(chunk.records) == 3
    assert end.reason is FinishReason.MAX_TOKENS


async def test_predictors_hear_of_every_pass_of_a_prompt(target: Target):
    sequence, _ = target.add(make_request(b"0123456789", stop_ids=[]))
    assert target.predictor.num_tokens == [10]
    for _ in range(4):
        target.driver.step()
    assert target.predictor.num_tokens == [10, 10, 10, 11, len(sequence.tokens)]


async def test_each_pass_is_reported_with_its_tokens_if_asked(target: Target):
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, num_predictions=3)
    request = make_request(b"0123456789", max_tokens=8, stop_ids=[], speculation=policy, pass_reports=True)
    _, stream = target.add(request)
    while target.driver.step():
        pass
    *_, chunk, end = await read(stream)
    counts = [(report.num_tokens, len(report.predictions), report.num_accepted) for report in chunk.reports]
    stats = end.speculation
    assert len(counts) == stats.passes
    assert [sum(column) for column in zip(*counts, strict=True)] == [8, sum(stats.offered), sum(stats.accepted)]
    assert counts[0] == (1, 0, 0), "a prompt has no predictions"
    assert max(counts) == (4, 3, 3)
    sources = [PredictionSource.DRAFT if predicted else None for _, predicted, _ in counts]
    assert [report.source for report in chunk.reports] == sources


async def test_predictions_without_room_have_a_reason_and_no_source(target: Target, monkeypatch):
    add = target.scheduler.add_predictions
    monkeypatch.setattr(target.scheduler, "add_predictions", lambda rows, _: add(rows, []))
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, num_predictions=3)
    request = make_request(b"0123456789", max_tokens=8, stop_ids=[], speculation=policy, pass_reports=True)
    _, stream = target.add(request)
    while target.driver.step():
        pass
    *_, chunk, end = await read(stream)
    assert {(report.source, len(report.predictions)) for report in chunk.reports} == {(None, 0)}
    assert end.speculation.by_source == {}
    assert (end.speculation.why_not, end.speculation.detail) == (
        NoSpeculation.UNAVAILABLE,
        "there was no room for predictions",
    )


async def test_a_report_counts_the_alternates_received_before_its_pass(target: Target):
    sequence, stream = target.add(make_request(b"0123456789", max_tokens=6, stop_ids=[], pass_reports=True))
    while target.driver.step():
        sequence.speculation.alternates += 1  # as the link does when it settles the pass
    *_, chunk, _ = await read(stream)
    passes, steps = len(chunk.reports), sequence.speculation.alternates
    assert [report.num_alternates for report in chunk.reports] == list(range(steps - passes, steps))
    assert all(report.host > 0 for report in chunk.reports), "other passes had computed the prompt"
    assert all(report.verifying > 0 and (report.waiting > 0) == bool(report.predictions) for report in chunk.reports)
    assert any(report.waiting for report in chunk.reports)


async def test_a_report_counts_committed_tokens_where_a_stop_ends_it(target: Target):
    free = make_request(
        b"ab", max_tokens=8, stop_ids=[], speculation=SpeculationPolicy(mode=SpeculationMode.ALWAYS, num_predictions=7)
    )
    _, stream = target.add(free)
    while target.driver.step():
        pass
    chunk, _ = await read(stream)
    stop = chunk.records[3].token_id
    assert stop not in [record.token_id for record in chunk.records[:3]]
    _, stream = target.add(replace(free, stops=replace(free.stops, token_ids=frozenset([stop])), output=REPORTED))
    while target.driver.step():
        pass
    chunk, end = await read(stream)
    assert end.reason is FinishReason.STOP_TOKEN
    reports = [(report.num_tokens, len(report.predictions), report.num_accepted) for report in chunk.reports]
    assert reports == [(1, 0, 0), (3, 6, 3)]


async def test_all_is_counted_and_freed_before_the_end_is_sent(target: Target):
    """The consumer reads on another thread: what it finds in the last event must not change any more."""
    speculation = SpeculationPolicy(mode=SpeculationMode.ALWAYS, num_predictions=3)
    request = make_request(b"ab", max_tokens=8, stop_ids=[], speculation=speculation)
    snapshots = []

    class Watched(TokenStream):
        def put(self, event) -> None:
            if isinstance(event, Finished):
                stats = event.speculation
                counts = deepcopy(stats)
                snapshots.append((counts, target.is_empty()))
            super().put(event)

    stream = Watched(capacity=100, on_drained=lambda: None)
    target.driver.add(make_output(request, stream))
    while target.driver.step():
        pass
    chunk, end = await read(stream)
    assert [record.predicted for record in chunk.records] == [False, *[True] * 3, False, *[True] * 2, False]
    assert end.speculation == SpeculationStats(
        passes=3,
        offered=[2, 2, 1],
        accepted=[2, 2, 1],
        by_source={PredictionSource.DRAFT: SourceStats(passes=2, offered=5, accepted=5)},
    )
    assert snapshots == [(end.speculation, True)]


async def test_a_dropped_sequence_is_gone_at_once_and_drops_twice(target: Target):
    running, _ = target.add(make_request(b"0123456789"))
    target.driver.step()
    waiting, _ = target.add(make_request(b"abc"))
    for sequence in (running, waiting, running):
        target.driver.drop(sequence)
    assert target.is_empty()
    assert not target.driver.step()


async def test_a_deadline_ends_a_generation_before_the_next_pass(target: Target):
    sequence, _ = target.add(make_request(b"abc", deadline=time.monotonic() + 3600, stop_ids=[]))
    late, late_stream = target.add(make_request(b"xyz", deadline=time.monotonic() - 1))
    target.driver.step()
    (end,) = await read(late_stream)
    assert (end.reason, end.completion_tokens, late.text.num_computed) == (FinishReason.DEADLINE, 0, 0)
    assert sequence.num_generated == 1
    target.driver.drop(late)  # as its consumer does when it leaves
    target.driver.drop(sequence)
    assert target.is_empty()


async def test_abandoning_the_engine_fails_every_stream_once(target: Target):
    streams = [target.add(make_request(b"abc", stop_ids=[]))[1] for _ in range(6)]
    target.driver.step()
    target.driver.abandon("the engine has failed")
    target.driver.abandon("the server is shutting down")
    for stream in streams[:4]:
        chunk, failure = await read(stream)
        assert isinstance(chunk, Chunk)
        assert failure == Failed("the engine has failed")
    for stream in streams[4:]:
        assert await read(stream) == [Failed("the engine has failed")]
    assert target.is_empty()


async def test_an_aborted_stream_gets_its_tokens_first(target: Target):
    sequence, stream = target.add(make_request(b"abc", stop_ids=[]))
    target.driver.step()
    target.driver.abort(sequence, "why not")
    chunk, end = await read(stream)
    assert (len(chunk.records), end) == (1, Aborted("why not"))
    assert target.is_empty()


async def test_text_is_made_while_a_gpu_computes(target: Target, monkeypatch):
    """While a CPU computes, the host has no time for it, and text would only come later."""
    never = SpeculationPolicy(mode=SpeculationMode.NEVER)
    _, stream = target.add(make_request(b"abc", max_tokens=3, stop_ids=[], speculation=never))
    seen: list[int] = []

    def watch(name: str) -> None:
        inner = getattr(target.model, name)

        def watched(*arguments: Any) -> Any:
            seen.append(stream._num_tokens)
            return inner(*arguments)

        monkeypatch.setattr(target.model, name, watched)

    watch("forward")
    watch("forward_next")
    watch("pool")  # after tokens were drawn
    while target.driver.step():
        pass
    assert seen == ([0, 0, 0, 1, 1, 2] if target.model.returns_early else [0, 0, 1, 1, 2, 2])
    chunk, end = await read(stream)
    assert (len(chunk.records), end.reason) == (3, FinishReason.MAX_TOKENS)
