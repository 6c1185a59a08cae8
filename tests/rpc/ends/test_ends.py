"""However a call ends, nothing of it stays: cancelled, out of time, read slowly, or one too many."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.service.server_config import ServerConfig
from services.target.generation.engine import TargetEngine
from services.target.sequence.sequence import Sequence
from tests.harness.models.checkpoints import CONTEXT_LENGTH
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.ends_by_time import MARGIN, ended_in_time
from tests.rpc.harness.predictors import GatePredictor, SlowPredictor
from tests.rpc.harness.requests import as_unary, detail, stream, stream_request

LONG = {"max_tokens": CONTEXT_LENGTH - 100, "ignore_eos": True}


@pytest.fixture(scope="module")
def slow_target(model: Path) -> Iterator[RunningTarget]:
    """A server that takes seconds for a long generation."""
    with target_server(model, predictor=SlowPredictor()) as running:
        yield running


@pytest.fixture
def slow(slow_target: RunningTarget) -> Iterator[RunningTarget]:
    """The slow server; after the test nothing is left in it."""
    yield slow_target
    slow_target.assert_all_free()


class StepsToDrop:
    """Counts the steps that begin between the cancelling of a sequence, once the engine can know, and its end there."""

    def __init__(self, engine: TargetEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.num_steps = 0
        self.waits: list[int] = []
        self._cancelled_at: dict[Sequence, int] = {}
        self._sequences = engine._sequences
        self._step, self._drop, self._cancel = engine._step.step, engine._step.drop, engine.cancel
        monkeypatch.setattr(engine._step, "step", self._count)
        monkeypatch.setattr(engine._step, "drop", self._note_drop)
        monkeypatch.setattr(engine, "cancel", self._note_cancel)

    def _count(self) -> bool:
        self.num_steps += 1
        return self._step()

    def _note_cancel(self, number: int) -> None:
        sequence = self._sequences[number]
        self._cancel(number)
        self._cancelled_at[sequence] = self.num_steps

    def _note_drop(self, sequence: Sequence) -> None:
        self._drop(sequence)
        assert not sequence.text.blocks
        self.waits.append(self.num_steps - self._cancelled_at.get(sequence, self.num_steps))


def test_cancelling_frees_all_blocks_within_one_step(slow: RunningTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    slow.on_engine_thread(lambda: None)  # what the engine does once it has begun is over
    steps = StepsToDrop(slow.engine, monkeypatch)
    other = slow.stub.StreamGenerate(stream_request(stop=LONG))
    next(other)
    for _ in range(5):
        call = slow.stub.StreamGenerate(stream_request(stop=LONG))
        while not next(call).HasField("chunk"):
            pass
        call.cancel()
    wait_until(lambda: len(steps.waits) == 5)
    assert max(steps.waits) <= 1
    assert slow.on_engine_thread(lambda: len(slow.engine.scheduler.sequences)) == 1
    other.cancel()


def test_cancelling_a_unary_call_drops_it_too(slow: RunningTarget) -> None:
    call = slow.stub.Generate.future(as_unary(stream_request(stop=LONG)))
    wait_until(lambda: slow.engine.scheduler.running)
    call.cancel()
    slow.assert_all_free()


def test_a_connection_that_goes_drops_its_streams(slow: RunningTarget) -> None:
    channel = grpc.insecure_channel(slow.address, [("grpc.use_local_subchannel_pool", 1)])
    call = GenerationServiceStub(channel).StreamGenerate(stream_request(stop=LONG))
    next(call)
    channel.close()
    slow.assert_all_free()


@pytest.mark.usefixtures("wide_margin")
def test_at_the_deadline_the_text_so_far_and_the_end_arrive(slow: RunningTarget) -> None:
    cut = ended_in_time(lambda seconds: stream(slow, stream_request(stop=LONG), timeout=MARGIN + seconds))
    assert cut.reason == "FINISH_REASON_DEADLINE"
    assert 0 < len(cut.token_ids) == cut.finished.usage.completion_tokens < LONG["max_tokens"]
    same = stream(slow, stream_request(stop={"max_tokens": len(cut.token_ids), "ignore_eos": True}))
    assert (same.token_ids, same.text) == (cut.token_ids, cut.text)
    unary = ended_in_time(
        lambda seconds: slow.stub.Generate(as_unary(stream_request(stop=LONG)), timeout=MARGIN + seconds)
    )
    assert unary.finished.reason == cut.finished.reason
    shorter, longer = sorted([list(unary.token_ids), cut.token_ids], key=len)
    assert longer[: len(shorter)] == shorter


def test_a_slow_reader_pauses_its_sequence_and_no_other(model: Path) -> None:
    stop = {"max_tokens": 500, "ignore_eos": True}
    request = stream_request(stop=stop, output={"top_candidates": 20})
    narrow = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
    with target_server(model, stream_capacity=8) as target, grpc.insecure_channel(target.address, narrow) as channel:
        expected = stream(target, request)
        call = type(target.stub)(channel).StreamGenerate(request)
        wait_until(lambda: any(sequence.is_paused for sequence in target.engine.scheduler.running))
        sequence = target.engine.scheduler.running[0]
        others = [stream(target, stream_request()) for _ in range(3)]
        assert all(len(other.token_ids) == 24 for other in others)
        wait_until(lambda: sequence.is_paused)  # again, if the transport has taken a little more
        assert 0 < sequence.num_generated < 500
        ids = [token_id for event in call for token_id in event.chunk.token_ids]
        assert ids == expected.token_ids
        target.assert_all_free()


def test_requests_beyond_the_queue_are_refused_with_a_delay(model: Path) -> None:
    predictor = GatePredictor()
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_queue=1)
    with target_server(model, predictor=predictor, server=config, max_sequences=1) as target:
        predictor.gate.clear()
        calls = [target.stub.StreamGenerate(stream_request())]
        assert next(calls[0]).HasField("started")
        calls.append(target.stub.StreamGenerate(stream_request()))
        wait_until(lambda: target.model.admissions.streams.total == len(calls))  # the one that waits is not heard of
        with pytest.raises(grpc.RpcError) as failure:
            stream(target, stream_request())
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert detail(failure.value, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() > 0
        predictor.gate.set()
        assert [_count(call) for call in calls] == [24, 24]
        assert len(stream(target, stream_request()).token_ids) == 24
        target.assert_all_free()


def test_streams_at_once_get_the_tokens_of_each_alone(target: RunningTarget) -> None:
    requests = [stream_request(sampling={"seed": seed}, request_id=str(seed)) for seed in range(12)]
    alone = [stream(target, request).token_ids for request in requests]
    together: dict[str, list[int]] = {}

    def run(request: Any) -> None:
        together[request.request_id] = stream(target, request).token_ids

    threads = [threading.Thread(target=run, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[str(seed)] for seed in range(12)] == alone


def _count(call: Any) -> int:
    return sum(len(event.chunk.token_ids) for event in call)
