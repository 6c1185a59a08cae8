"""The contents of an answer: the finish reason, the counts, and the log-probabilities of the RPC."""

from pathlib import Path
from typing import Any

import pytest
from smg_grpc_proto.generated import vllm_engine_pb2

from services.target.api import servicer
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.ends_by_time import MARGIN, ended_in_time
from tests.rpc.harness.predictors import SlowPredictor
from tests.rpc.harness.requests import stream, stream_request
from tests.vllm_contract.asking import PROMPT, ask, ask_all, contract_request, stub_of

COLD: dict[str, Any] = {"temperature": 0.0}


def test_the_finish_reason_has_the_contracts_words(target: RunningTarget) -> None:
    ids = ask(target, contract_request(**COLD)).token_ids
    tokenizer = target.server._servicer.serving().model.tokenizer
    text = tokenizer.token_text(ids[3])
    for fields, reason, stop in (
        ({}, "length", None),
        ({"stop_token_ids": [0]}, "length", None),
        ({"stop_token_ids": [ids[3]]}, "stop", ids[3]),
        ({"stop": [text]}, "stop", text),
        ({"regex": "x"}, "stop", None),  # the model's own end, which the request did not name by its id
        ({"regex": "x", "ignore_eos": True}, "stop", None),
    ):
        end = ask(target, contract_request(**{**COLD, "ignore_eos": False, **fields})).end
        matched = end.WhichOneof("matched_stop")
        assert (end.finish_reason, getattr(end, matched) if matched else None) == (reason, stop)


def test_near_the_deadline_the_tokens_so_far_arrive(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicer, "_MARGIN_SECONDS", MARGIN)
    monkeypatch.setattr(servicer, "_MARGIN_FRACTION", 1.0)
    with target_server(model, predictor=SlowPredictor()) as slow:
        cut = ended_in_time(lambda seconds: ask(slow, contract_request(max_tokens=200), timeout=MARGIN + seconds))
        assert cut.end.finish_reason == "abort"
        assert 0 < cut.end.completion_tokens == len(cut.token_ids) < 200
        assert ask(slow, contract_request(max_tokens=len(cut.token_ids))).token_ids == cut.token_ids


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
def test_tokens_are_counted(target: RunningTarget, streams: bool) -> None:
    prompt = [*range(100, 180)]
    ask(target, contract_request(prompt))
    again = ask(target, contract_request(prompt, stream=streams))
    assert (again.end.prompt_tokens, again.end.completion_tokens) == (80, 24)
    assert again.end.cached_tokens > 0
    assert {chunk.cached_tokens for chunk in again.chunks} <= {again.end.cached_tokens}
    assert sum(chunk.completion_tokens for chunk in again.chunks) == (24 if streams else 0)
    assert {chunk.prompt_tokens for chunk in again.chunks} <= {80}


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
def test_logprobs_are_those_of_the_rpc(target: RunningTarget, streams: bool) -> None:
    output = {"top_candidates": 4, "prompt_logprobs": True}
    expected = stream(target, stream_request(PROMPT, sampling={"seed": 5, "temperature": 1.0}, output=output))
    records = [record for prefill in expected.prefills for record in prefill.records]
    asked = ask_all(target, contract_request(stream=streams, logprobs=2, prompt_logprobs=4, n=2))
    for sample in asked:
        told = [one.input_logprobs for one in (*sample.chunks, sample.end) if one.HasField("input_logprobs")]
        (prompt,) = told
        assert told[0] == (sample.chunks or sample.ends)[0].input_logprobs, "the first message has them"
        assert [*prompt.token_ids] == PROMPT
        assert not prompt.token_logprobs[0].HasField("value")
        values = [one.value for one in prompt.token_logprobs][1:]
        assert values == [record.raw_logprob for record in records[1:]]
        assert [len(top.values) for top in prompt.top_logprobs] == [0, *[4] * 6]
    messages: list[vllm_engine_pb2.OutputLogProbs] = [
        one.output_logprobs for one in (*asked[0].chunks, asked[0].end) if one.HasField("output_logprobs")
    ]
    assert [value for one in messages for value in one.token_logprobs] == [one.raw_logprob for one in expected.records]
    tops = [(list(top.token_ids), list(top.values)) for one in messages for top in one.top_logprobs]
    assert tops == [
        ([one.id for one in record.candidates[:2]], [one.raw_logprob for one in record.candidates[:2]])
        for record in expected.records
    ]


def test_whole_answers_end_in_the_order_of_the_samples(target: RunningTarget) -> None:
    """Whichever is through first: some routers number them as they come."""
    first, *_, last = (sample.token_ids for sample in ask_all(target, contract_request(n=3)))
    stop = next(token_id for token_id in last[:12] if token_id not in first)
    request = contract_request(n=3, stop_token_ids=[stop], stream=False)
    ends = [response.complete for response in stub_of(target).Generate(request, timeout=60)]
    assert [end.index for end in ends] == [0, 1, 2]
    assert ends[2].completion_tokens < ends[0].completion_tokens == 24


def test_without_being_asked_no_logprobs_are_sent(target: RunningTarget) -> None:
    asked = ask(target, contract_request())
    assert not any(one.HasField("output_logprobs") for one in (*asked.chunks, asked.end))
    counted = ask(target, contract_request(logprobs=0))
    assert len(counted.logprobs) == 24
    assert not any(one.output_logprobs.top_logprobs for one in (*counted.chunks, counted.end))
