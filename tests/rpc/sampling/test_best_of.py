"""The best of several answers: those that the model finds likeliest, a function of the bits."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

import outrider
from outrider.v1 import common_pb2, generation_pb2
from services.engine.decoder.native import derive_seed
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.commands import outrider_run
from tests.rpc.harness.requests import PROMPT, Streamed, as_unary, stream, stream_request, violations

NUM_BEST, NUM_GENERATED = 2, 6
SAMPLING = {"seed": 9, "temperature": 0.9}
SEEDS = [derive_seed(9, index) for index in range(NUM_GENERATED)]


def best(**fields: Any) -> generation_pb2.StreamGenerateRequest:
    counts = {"num_samples": NUM_BEST, "best_of": NUM_GENERATED}
    return stream_request(**{"sampling": SAMPLING, **counts, **fields})


def alone(target: RunningTarget, seed: int, **output: bool) -> Streamed:
    return stream(target, stream_request(sampling={**SAMPLING, "seed": seed}, output=output))


def ranked(target: RunningTarget) -> list[int]:
    """The seeds of all answers, each requested by itself, the likeliest one first."""
    means = {}
    for seed in SEEDS:
        logprobs = [record.raw_logprob for record in alone(target, seed, logprobs=True).records]
        means[seed] = math.fsum(logprobs) / len(logprobs)
    return sorted(SEEDS, key=lambda seed: (-means[seed], SEEDS.index(seed)))


def test_the_best_come_in_order_each_with_its_own_bytes(target: RunningTarget) -> None:
    events = list(target.stub.StreamGenerate(best()))
    starts, rest = events[:NUM_BEST], events[NUM_BEST:]
    expected = ranked(target)[:NUM_BEST]
    assert expected != SEEDS[:NUM_BEST]
    assert [(event.sample, event.started.seed) for event in starts] == list(enumerate(expected))
    assert [event.sample for event in rest] == sorted(event.sample for event in rest)
    for rank, seed in enumerate(expected):
        own, mine = alone(target, seed), [event for event in rest if event.sample == rank]
        assert "".join(event.chunk.text + event.finished.text for event in mine) == own.text
        assert [token_id for event in mine for token_id in event.chunk.token_ids] == own.token_ids
        assert not any(event.chunk.records for event in mine)
        assert mine[-1].HasField("finished")


def test_the_unary_call_returns_the_same(target: RunningTarget) -> None:
    answer = target.stub.Generate(as_unary(best()), timeout=60)
    assert [one.started.seed for one in (answer, *answer.further_samples)] == ranked(target)[:NUM_BEST]


@pytest.mark.parametrize("output", [{"token_records": True}, {"rank": True}, {"logprobs": True}], ids=str)
def test_tokens_are_reported_only_as_asked(target: RunningTarget, output: dict[str, bool]) -> None:
    answer = target.stub.Generate(as_unary(best(output=output)), timeout=60)
    assert list(answer.records) == alone(target, answer.started.seed, **output).records


def test_prompt_records_come_with_the_best_answer(target: RunningTarget) -> None:
    output = {"prompt_logprobs": True}
    answer = target.stub.Generate(as_unary(best(output=output)), timeout=60)
    plain = target.stub.Generate(as_unary(stream_request(sampling=SAMPLING, output=output)), timeout=60)
    assert len(answer.prompt_records) == answer.started.prompt_tokens
    assert answer.prompt_records == plain.prompt_records
    assert not answer.further_samples[0].prompt_records


def test_predictions_and_company_change_no_best_answer(model: Path, target: RunningTarget) -> None:
    prompt = "one two three one two three one two three one two"
    request = best(prompt={"text": prompt}, stop={"max_tokens": 48, "ignore_eos": True}, num_samples=NUM_GENERATED)
    expected = target.stub.Generate(as_unary(request), timeout=60)
    request.speculation.mode = common_pb2.SPECULATION_MODE_ALWAYS
    with target_server(model, lookup=True, prefill_chunk=7) as other, ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda _: other.stub.Generate(as_unary(request), timeout=120), range(3)))
    for answer in answers:
        assert texts_of(answer) == texts_of(expected)
        stats = [one.finished.speculation for one in (answer, *answer.further_samples)]
        assert sum(one.predicted for one in stats) > sum(one.accepted for one in stats)


def texts_of(answer: generation_pb2.GenerateResponse) -> list[tuple[int, str]]:
    return [(one.started.seed, one.text) for one in (answer, *answer.further_samples)]


def test_a_continuation_is_of_one_answer(target: RunningTarget) -> None:
    start = next(target.stub.StreamGenerate(best()))
    request = best(continue_from={"fingerprint": start.started.fingerprint}, num_samples=1)
    with pytest.raises(grpc.RpcError) as refusal:
        stream(target, request)
    told = "is 6; allowed: 1 with continue_from: an answer is continued as a request of its own"
    assert violations(refusal.value) == {"best_of": told}


def test_whole_rows_of_logits_are_not_kept_until_the_end(target: RunningTarget) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        stream(target, best(output={"logits": True}))
    told = "is true; allowed: beside best_of only with logits_token_ids"
    assert violations(refusal.value) == {"output.logits": told}
    ids = [4, 2]
    answer = target.stub.Generate(as_unary(best(output={"logits": True, "logits_token_ids": ids})), timeout=60)
    assert {len(record.logits.data) for record in answer.records} == {8}


@pytest.mark.parametrize(("num_samples", "cut_at"), [(1, 0), (2, 0), (2, 1)], ids=str)
def test_the_client_takes_the_best_up_again(target: RunningTarget, num_samples: int, cut_at: int) -> None:
    options: Any = {**SAMPLING, "max_tokens": 24, "ignore_eos": True, "num_samples": num_samples, "best_of": 6}
    with outrider.Client(target.address) as client:
        whole = client.generate(PROMPT, **options)
    with CuttingProxy(int(target.address.rpartition(":")[2])) as proxy, outrider.Client(proxy.address) as client:
        stream = client.stream(PROMPT, **options)
        for index, _ in enumerate(stream):
            if index == cut_at:
                proxy.cut()
        cut = stream.result
    samples = [(one.started.seed, one.text) for one in (whole, *whole.further_samples)]
    assert [(one.started.seed, one.text) for one in (cut, *cut.further_samples)] == samples


def test_the_command_prints_the_best(target: RunningTarget) -> None:
    options = ["--seed", "9", "--temperature", "0.9", "--max-tokens", "24", "--ignore-eos", "--best-of", "6"]
    done = outrider_run("generate", PROMPT, *options, "--address", target.address)
    assert done.stdout.removesuffix("\n") == alone(target, ranked(target)[0]).text
