"""Readers that never read: they keep no other out, their blocks are freed, and they may resume where they stopped."""

import logging
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2

import outrider
from outrider.v1 import generation_pb2
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.engine.config import ConfigError
from services.service.access.caller import Caller
from services.service.server_config import ServerConfig
from services.target.api import servicer
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.requests import PROMPT, detail, stream, stream_request

MAX_SEQUENCES, MAX_QUEUE = 8, 72
SHARE = MAX_SEQUENCES + MAX_QUEUE // 2
NUM_STALLED = 400
NARROW = [  # so that a few tokens fill what the transport holds
    ("grpc.http2.lookahead_bytes", 1024),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
LONG = {"max_tokens": 200, "ignore_eos": True}


def serve(model: Path, reader_timeout: float) -> Iterator[RunningTarget]:
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_queue=MAX_QUEUE, reader_timeout=reader_timeout)
    with target_server(model, server=config, max_sequences=MAX_SEQUENCES, stream_capacity=4) as running:
        yield running
        running.assert_all_free()


@pytest.fixture(scope="module")
def patient(model: Path) -> Iterator[RunningTarget]:
    """A server that waits for readers for longer than the test takes."""
    yield from serve(model, 600.0)


@pytest.fixture(scope="module")
def strict(model: Path) -> Iterator[RunningTarget]:
    """A server that waits for readers for a second."""
    yield from serve(model, 1.0)


def in_flight(target: RunningTarget) -> int:
    return target.model.admissions.streams.total


def stall(channel: grpc.Channel) -> list[grpc.Call]:
    """Streams that are never read."""
    request = stream_request(stop=LONG, output={"top_candidates": 20})
    return [GenerationServiceStub(channel).StreamGenerate(request) for _ in range(NUM_STALLED)]


def test_four_hundred_stalled_readers_keep_no_client_out(patient: RunningTarget) -> None:
    expected = stream(patient, stream_request()).token_ids
    with grpc.insecure_channel(patient.address, NARROW) as channel:
        calls = stall(channel)
        wait_until(lambda: sum(call.done() for call in calls) == NUM_STALLED - SHARE)
        refused = [call for call in calls if call.done()]
        assert {call.code() for call in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert f"{SHARE} requests of this caller" in refused[0].details()
        assert stream(patient, stream_request()).token_ids == expected
        assert patient.health() == "SERVING"
    wait_until(lambda: not in_flight(patient))


def test_stalled_readers_blocks_come_back_while_still_connected(strict: RunningTarget) -> None:
    with grpc.insecure_channel(strict.address, NARROW) as channel:
        calls = stall(channel)
        wait_until(lambda: in_flight(strict) >= MAX_SEQUENCES)
        wait_until(lambda: not in_flight(strict))
        strict.assert_all_free()
        assert len(stream(strict, stream_request()).token_ids) == 24
        assert calls


def test_a_stalled_reader_that_returns_gets_reader_stalled(
    strict: RunningTarget, caplog: pytest.LogCaptureFixture
) -> None:
    request = stream_request(stop=LONG, output={"top_candidates": 20})
    with grpc.insecure_channel(strict.address, NARROW) as channel, caplog.at_level(logging.WARNING):
        call = GenerationServiceStub(channel).StreamGenerate(request)
        events = [next(call)]
        wait_until(lambda: not in_flight(strict))
        strict.assert_all_free()
        with pytest.raises(grpc.RpcError) as failure:
            events.extend(call)
    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "the stream has not been read for 1 s" in failure.value.details()
    assert detail(failure.value, error_details_pb2.ErrorInfo).reason == "READER_STALLED"
    logged = [record.getMessage() for record in caplog.records if record.name == servicer.__name__]
    assert logged == [f"request {events[0].started.request_id}: its reader took nothing for 1 s; it is ended"]


def test_the_client_that_comes_back_gets_the_same_bytes(strict: RunningTarget) -> None:
    options = {"seed": 3, "max_tokens": 200, "ignore_eos": True, "top_candidates": 20}
    with outrider.Client(strict.address) as client:
        alone = client.generate(PROMPT, **options)
    with outrider.Client(strict.address, channel_arguments=NARROW) as client, client.stream(PROMPT, **options) as slow:
        chunks = iter(slow)
        next(chunks)
        wait_until(lambda: not in_flight(strict))
        strict.assert_all_free()
        for _ in chunks:
            pass
        assert slow.result.resumed >= 1
        assert (slow.result.token_ids, slow.result.text) == (alone.token_ids, alone.text)
        assert [token.processed_logprob for token in slow.result.tokens] == [
            token.processed_logprob for token in alone.tokens
        ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reader_timeout": 0}, r"reader_timeout is 0; it must be from 0\.1 to 3600"),
        ({"reader_timeout": float("nan")}, "reader_timeout is nan"),
        ({"max_streams_per_caller": 0}, "max_streams_per_caller is 0; it must be from 1 to"),
        ({"max_waiting_tokens": 0}, "max_waiting_tokens is 0; it must be from 1 to"),
        ({"max_held_bytes": 1 << 22}, "max_held_bytes is 4194304; it must be from 8388608 to"),
        ({"max_text_calls": 0}, "max_text_calls is 0; it must be from 1 to"),
    ],
)
def test_settings_that_cannot_be_are_named(fields: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ServerConfig(**fields)


def test_texts_and_generations_do_not_take_each_others_places(model: Path) -> None:
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_queue=0, max_text_calls=1)
    with target_server(model, server=config, max_sequences=1) as target:
        text_calls = target.model.admissions.text_calls
        with text_calls.admit(1, Caller("another")):
            for call in (
                lambda: target.stub.Tokenize(generation_pb2.TokenizeRequest(text="a")),
                lambda: target.stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=[5])),
            ):
                with pytest.raises(grpc.RpcError) as failure:
                    call()
                assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert detail(failure.value, error_details_pb2.ErrorInfo).reason == "TOO_MANY_CALLS"
            assert len(stream(target, stream_request()).token_ids) == 24
        with target.model.admissions.streams.admit(1, Caller("another")):
            assert target.stub.Tokenize(generation_pb2.TokenizeRequest(text="a")).token_ids
            with pytest.raises(grpc.RpcError) as failure:
                stream(target, stream_request())
            assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
