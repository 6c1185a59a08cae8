"""Several samples over gRPC: interleaved on one stream, each with its seed, and as requests of their own would be."""

import re
from pathlib import Path

import grpc
import pytest

import outrider
from outrider.v1 import generation_pb2
from services.engine.decoder.native import derive_seed
from services.service.access.caller import Caller
from services.service.admission import Admission, Work
from services.service.errors import OverloadedError
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.requests import PROMPT, as_unary, stream, stream_request, violations

NUM_SAMPLES = 3
SAMPLING = {"seed": 9, "temperature": 0.9}
SEEDS = [derive_seed(9, index) for index in range(NUM_SAMPLES)]
LOGPROBS = {"logprobs": True}


def several(**fields: object) -> generation_pb2.StreamGenerateRequest:
    return stream_request(**{"sampling": SAMPLING, "output": LOGPROBS, "num_samples": NUM_SAMPLES, **fields})


def test_each_sample_has_the_bytes_of_a_request_of_its_own(by_token: RunningTarget) -> None:
    events = list(by_token.stub.StreamGenerate(several()))
    starts, rest = events[:NUM_SAMPLES], events[NUM_SAMPLES:]
    assert [(event.sample, event.started.seed) for event in starts] == list(enumerate(SEEDS))
    assert not any(event.HasField("started") for event in rest)
    assert [event.sample for event in rest] != sorted(event.sample for event in rest), "they are not interleaved"
    assert sorted(event.sample for event in rest if event.HasField("finished")) == [*range(NUM_SAMPLES)]
    assert events[-1].HasField("finished")
    for index, seed in enumerate(SEEDS):
        alone = stream(by_token, stream_request(sampling={**SAMPLING, "seed": seed}, output=LOGPROBS))
        mine = [event for event in rest if event.sample == index]
        assert [record for event in mine for record in event.chunk.records] == alone.records
        assert "".join(event.chunk.text + event.finished.text for event in mine) == alone.text
        assert (mine[-1].finished.reason, mine[-1].HasField("finished")) == (alone.finished.reason, True)


def test_the_unary_call_returns_all_samples(target: RunningTarget) -> None:
    answer = target.stub.Generate(as_unary(several()))
    assert len(answer.further_samples) == NUM_SAMPLES - 1
    for seed, sample in zip(SEEDS, [answer, *answer.further_samples], strict=True):
        alone = stream(target, stream_request(sampling={**SAMPLING, "seed": seed}, output=LOGPROBS))
        assert (sample.started.seed, sample.text, list(sample.records)) == (seed, alone.text, alone.records)
        assert sample.finished.usage.completion_tokens == 24
    assert not any(sample.further_samples for sample in answer.further_samples)


def test_one_sample_is_the_request_without_the_field(target: RunningTarget) -> None:
    one, plain = (stream(target, several(**fields)) for fields in ({"num_samples": 1}, {}))
    assert plain.started.seed == SEEDS[0]
    assert one.records == stream(target, stream_request(sampling=SAMPLING, output=LOGPROBS)).records


def test_prompt_records_come_once_with_the_first_sample(target: RunningTarget) -> None:
    asked = {"prompt_logprobs": True, "logprobs": True}
    answer = target.stub.Generate(as_unary(several(output=asked)))
    alone = target.stub.Generate(as_unary(stream_request(sampling=SAMPLING, output=asked)))
    assert len(answer.prompt_records) == answer.started.prompt_tokens
    assert answer.prompt_records == alone.prompt_records
    assert not any(sample.prompt_records for sample in answer.further_samples)


def test_samples_that_follow_a_grammar_have_a_state_each(target: RunningTarget) -> None:
    grammar = {"regex": "[ab]{4}-[cd]{4}"}
    answer = target.stub.Generate(as_unary(several(grammar=grammar, stop={"max_tokens": 24})))
    texts = [sample.text for sample in (answer, *answer.further_samples)]
    assert all(re.fullmatch(grammar["regex"], text) for text in texts)
    for seed, text in zip(SEEDS, texts, strict=True):
        request = stream_request(sampling={**SAMPLING, "seed": seed}, grammar=grammar, stop={"max_tokens": 24})
        assert stream(target, request).text == text


def test_an_interrupted_sample_is_continued_alone(target: RunningTarget) -> None:
    start = next(target.stub.StreamGenerate(several()))
    continuation = {"fingerprint": start.started.fingerprint}
    with pytest.raises(grpc.RpcError) as refusal:
        stream(target, several(continue_from=continuation))
    assert violations(refusal.value) == {
        "num_samples": "is 3; allowed: 1 with continue_from: an interrupted sample is continued as a request of its own"
    }


def test_no_more_samples_than_the_server_runs_at_once(model: Path) -> None:
    with target_server(model, max_sequences=2, max_rows=64) as target:
        with pytest.raises(grpc.RpcError) as refusal:
            stream(target, several())
        assert violations(refusal.value) == {"num_samples": "is 3; allowed: at least 1, at most 2"}
        answer = target.stub.Generate(as_unary(several(num_samples=2)))
        assert [answer.started.seed, answer.further_samples[0].started.seed] == SEEDS[:2]
        target.assert_all_free()


def test_cancelling_frees_every_sample(target: RunningTarget) -> None:
    call = target.stub.StreamGenerate(several(stop={"max_tokens": 400, "ignore_eos": True}))
    while {event.sample for event in [next(call)] if event.HasField("chunk")} != {NUM_SAMPLES - 1}:
        pass
    call.cancel()
    target.assert_all_free()


async def test_samples_count_as_sequences() -> None:
    admission = Admission(Work.STREAMS, 4)
    with admission.admit(1, Caller("a")), admission.admit(2, Caller("a")):
        with pytest.raises(OverloadedError):
            admission.admit(2, Caller("a"))
        with admission.admit(1, Caller("a")):
            assert not await admission.wait_until_idle(0.0)
    with admission.admit(4, Caller("a")):
        pass
    assert await admission.wait_until_idle(0.0)


@pytest.mark.parametrize("cut_at", [(0,), (5,), (20, 40)], ids=str)
def test_the_client_takes_every_sample_up_again(target: RunningTarget, cut_at: tuple[int, ...]) -> None:
    options = {"seed": 9, "temperature": 0.9, "max_tokens": 24, "ignore_eos": True, "logprobs": True}
    with outrider.Client(target.address) as client:
        alone = [client.generate(PROMPT, **{**options, "seed": seed}) for seed in SEEDS]
    cuts = [*cut_at]
    with CuttingProxy(int(target.address.rpartition(":")[2])) as proxy, outrider.Client(proxy.address) as client:
        stream = client.stream(PROMPT, num_samples=NUM_SAMPLES, **options)
        chunks = []
        for chunk in stream:
            chunks.append(chunk)
            if cuts and len(chunks) > cuts[0]:
                proxy.cut()
                cuts.pop(0)
        samples = [stream.result, *stream.result.further_samples]
    assert [(sample.text, sample.tokens) for sample in samples] == [(one.text, one.tokens) for one in alone]
    for index, sample in enumerate(samples):
        mine = [chunk for chunk in chunks if chunk.sample == index]
        assert tuple(token for chunk in mine for token in chunk.tokens) == sample.tokens
    wait_until(lambda: not target.on_engine_thread(lambda: target.engine.scheduler.sequences))
