"""The records of each token: log-probabilities, rank, entropy, candidates and logits, over the wire."""

from collections.abc import Iterable
from typing import Any

import grpc
import numpy as np
import pytest

import outrider
from outrider.v1 import common_pb2
from services.service.access.caller import Caller
from services.service.validation import Violations
from services.target.api.prompts import read_prompt
from services.target.api.requests import read_request
from tests.harness.models.checkpoints import VOCAB_SIZE, byte_level_tokenizer
from tests.harness.servers.server import RunningTarget, wait_until
from tests.rpc.harness.requests import Streamed, as_unary, stream, stream_request, violations

SAMPLING = {"seed": 5, "temperature": 0.9, "repetition_penalty": 1.2}
EVERYTHING: dict[str, Any] = {
    "logprobs": True,
    "top_candidates": 3,
    "rank": True,
    "entropy": True,
    "logits": True,
    "prompt_logprobs": True,
    "prompt_token_ids": True,
}


def prompt_records(streamed: Streamed) -> list[common_pb2.TokenRecord]:
    return [record for prefill in streamed.prefills for record in prefill.records]


def records_bytes(records: Iterable[common_pb2.TokenRecord]) -> int:
    return sum(record.ByteSize() for record in records)


def figures_of(record: common_pb2.TokenRecord) -> set[str]:
    """The names of what is set beside the token itself."""
    always = {"id", "bytes", "text", "predicted", "prediction_source"}
    return {field.name for field, _ in record.ListFields()} - always


def test_records_have_figures_that_follow_from_the_logits(target: RunningTarget) -> None:
    whole = stream(target, stream_request(sampling=SAMPLING, output=EVERYTHING))
    assert [record.id for record in whole.records] == whole.token_ids
    for record in whole.records:
        assert (list(record.logits.shape), record.logits.dtype) == ([VOCAB_SIZE], common_pb2.DTYPE_FLOAT32)
        logits = np.frombuffer(record.logits.data, "<f4").astype(np.float64)
        logprobs = logits - np.log(np.exp(logits).sum())
        assert record.raw_logprob == pytest.approx(logprobs[record.id], abs=1e-5)
        assert record.entropy == pytest.approx(-(np.exp(logprobs) * logprobs).sum(), rel=1e-5)
        assert record.rank == 1 + (logits > logits[record.id]).sum() + (logits == logits[record.id])[: record.id].sum()


def test_penalties_come_before_the_bias(target: RunningTarget) -> None:
    """A penalty takes a token's logit as the model has it: what a bias makes of it is not penalised."""
    biased = {70: 6.0, 71: -6.0, 72: 8.0, 73: 5.0}
    sampling = {
        **{"temperature": 0.0, "repetition_penalty": 1.7, "frequency_penalty": 0.25, "presence_penalty": 0.5},
        "logit_bias": [{"token_id": token_id, "bias": bias} for token_id, bias in biased.items()],
    }
    whole = stream(target, stream_request([*range(60, 80)], sampling=sampling, output=EVERYTHING))
    for position, record in enumerate(whole.records):
        generated = whole.token_ids[:position]
        logits = np.frombuffer(record.logits.data, "<f4").astype(np.float64)
        seen = [*{*range(60, 80), *generated}]
        logits[seen] = np.where(logits[seen] > 0, logits[seen] / 1.7, logits[seen] * 1.7)
        for token_id in {*generated}:
            logits[token_id] -= 0.25 * generated.count(token_id) + 0.5
        for token_id, bias in biased.items():
            logits[token_id] += bias
        assert record.id == logits.argmax()
        logprobs = logits - np.log(np.exp(logits).sum())
        for candidate in record.candidates:
            assert candidate.processed_logprob == pytest.approx(logprobs[candidate.id], abs=1e-4)
    assert {*whole.token_ids} & biased.keys()


def test_prompt_records_come_in_order_before_the_first_chunk(target: RunningTarget) -> None:
    whole = stream(target, stream_request(output=EVERYTHING))
    first, *others = records = prompt_records(whole)
    assert [record.id for record in records] == list(whole.started.prompt_token_ids)
    assert whole.kinds == sorted(whole.kinds, key=["started", "prefill", "chunk", "finished"].index)
    assert whole.prefills[-1].done_tokens == whole.prefills[-1].total_tokens == len(records)
    assert figures_of(first) == set()
    for record in others:
        assert figures_of(record) == {"raw_logprob", "processed_logprob", "candidates", "rank", "entropy"}
        assert record.processed_logprob == record.raw_logprob
        assert len(record.candidates) == 3


def test_a_unary_answer_has_the_records_of_the_stream(target: RunningTarget) -> None:
    options = {**EVERYTHING, "logits_token_ids": [7, 3, 511]}
    streamed = stream(target, stream_request(output=options))
    whole = target.stub.Generate(as_unary(stream_request(output=options)))
    assert list(whole.records) == streamed.records
    assert list(whole.prompt_records) == prompt_records(streamed)
    everything = stream(target, stream_request(output=EVERYTHING))
    for some, full in zip(whole.records, everything.records, strict=True):
        logits = np.frombuffer(full.logits.data, "<f4")
        assert list(some.logits.shape) == [3]
        assert np.frombuffer(some.logits.data, "<f4").tolist() == logits[[7, 3, 511]].tolist()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, None),
        ({"prompt_logprobs": True}, None),
        ({"token_records": True}, set()),
        ({"rank": True}, {"rank"}),
        ({"entropy": True}, {"entropy"}),
        ({"logits": True}, {"logits"}),
        ({"logprobs": True}, {"raw_logprob", "processed_logprob"}),
    ],
    ids=lambda names: str(names and sorted(names)),  # a set's order differs from process to process
)
def test_only_requested_figures_are_reported(
    target: RunningTarget, asked: dict[str, bool], told: set[str] | None
) -> None:
    plain = stream(target, stream_request())
    whole = stream(target, stream_request(output=asked))
    assert whole.token_ids == plain.token_ids
    assert {frozenset(figures_of(record)) for record in whole.records} == (set() if told is None else {frozenset(told)})
    assert (prompt_records(whole) != []) == asked.get("prompt_logprobs", False)


def test_the_logits_of_a_whole_vocabulary_are_streamed_only(target: RunningTarget) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        target.stub.Generate(as_unary(stream_request(output={"logits": True})))
    assert violations(failure.value) == {
        "output.logits": "is true; allowed: in Generate only with logits_token_ids, else in StreamGenerate"
    }


def test_logits_that_fit_no_message_are_refused(target: RunningTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.target.api.output_options.MAX_RECORDS_BYTES", 4 * VOCAB_SIZE - 1)
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, stream_request(output={"logits": True}))
    assert violations(failure.value) == {
        "output.logits": "is true; allowed: with 512 tokens, only with logits_token_ids"
    }


def test_records_larger_than_a_message_come_in_several(target: RunningTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    output = {**EVERYTHING, "pass_reports": True}
    request = stream_request([9] * 100, output=output, stop={"max_tokens": 60, "ignore_eos": True})
    whole = stream(target, request)
    monkeypatch.setattr("services.target.api.records.MAX_RECORDS_BYTES", 5000)
    pieces = stream(target, request)
    assert all(records_bytes(chunk.records) <= 5000 for chunk in pieces.chunks)
    assert all(records_bytes(prefill.records) <= 5000 for prefill in pieces.prefills)
    assert len(pieces.chunks) >= 30
    assert len(pieces.prefills) > 1
    assert (pieces.text, pieces.records) == (whole.text, whole.records)
    assert prompt_records(pieces) == prompt_records(whole)
    assert sum(report.tokens for chunk in pieces.chunks for report in chunk.pass_reports) == 60


def test_larger_records_pause_an_unread_stream_earlier(target: RunningTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.target.generation.engine_facts._MAX_WAITING_LOGITS", 3 * 4 * VOCAB_SIZE)
    model = target.server._servicer.serving().model
    message = stream_request(output={"logits": True}, stop={"max_tokens": 60, "ignore_eos": True})
    found = Violations()
    prompt = target.call(read_prompt(message.prompt, model, found))
    request = read_request(message, prompt, None, model, found, caller=Caller("test"), deadline=None)
    (generation,) = target.call(target.engine.submit([request]))
    wait_until(lambda: generation.number in target.engine._sequences)
    sequence = target.engine._sequences[generation.number]
    wait_until(lambda: sequence.is_paused)
    assert target.on_engine_thread(lambda: sequence.num_generated) == 3
    target.engine.cancel(generation.number)


def test_the_client_gives_all_of_it(target: RunningTarget) -> None:
    options: dict[str, Any] = {key: value for key, value in EVERYTHING.items() if key != "prompt_token_ids"}
    with outrider.Client(target.address) as client:
        whole = client.generate("import os", seed=5, max_tokens=6, ignore_eos=True, **options)
        some = client.generate("import os", seed=5, max_tokens=6, ignore_eos=True, logits=True, logits_token_ids=[4, 2])
    expected = stream(
        target, stream_request("import os", stop={"max_tokens": 6, "ignore_eos": True}, output=EVERYTHING)
    )
    assert [token.rank for token in whole.tokens] == [record.rank for record in expected.records]
    assert [token.entropy for token in whole.tokens] == [record.entropy for record in expected.records]
    assert [token.logits.data for token in whole.tokens] == [record.logits.data for record in expected.records]
    for full, token in zip(whole.tokens, some.tokens, strict=True):
        assert token.logits.values() == (full.logits.values()[4], full.logits.values()[2])
    assert [token.id for token in whole.prompt_records] == list(expected.started.prompt_token_ids)
    assert whole.prompt_records[0].raw_logprob is None
    assert [token.rank for token in whole.prompt_records[1:]] == [r.rank for r in prompt_records(expected)[1:]]
    assert (some.prompt_records, some.tokens[0].rank, some.tokens[0].entropy) == ((), None, None)


@pytest.mark.parametrize("received", [0, 4])
def test_a_continuation_reports_the_prompt_if_nothing_was_drawn(target: RunningTarget, received: int) -> None:
    whole = stream(target, stream_request(sampling=SAMPLING, output=EVERYTHING))
    request = stream_request(list(whole.started.prompt_token_ids), sampling=SAMPLING, output=EVERYTHING)
    request.continue_from.fingerprint = whole.started.fingerprint
    request.continue_from.token_ids.extend(whole.token_ids[:received])
    rest = stream(target, request)
    assert rest.records == whole.records[received:]
    assert prompt_records(rest) == ([] if received else prompt_records(whole))


def test_a_healed_prompt_has_a_record_of_the_healed_token(target: RunningTarget) -> None:
    prompt = {"text": "import os\n\ndef ", "heal": True}
    whole = stream(target, stream_request(prompt, output=EVERYTHING))
    ids = byte_level_tokenizer().encode(prompt["text"]).ids
    *known, healed = prompt_records(whole)
    assert [record.id for record in known] == ids[:-1]
    assert healed.bytes.startswith(b" ")
    assert healed.processed_logprob > healed.raw_logprob
