"""The events of an answer: its tokens, its end, what was used, and failures."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import admin_pb2
from services.service.server_config import ServerConfig
from services.target.api import servicer
from services.target.openengine.v1 import openengine_pb2
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.openengine.asking import PROMPT, ask, contract_request, inference, taken
from tests.rpc.harness.administered import administered_target
from tests.rpc.harness.ends_by_time import MARGIN, ended_in_time
from tests.rpc.harness.predictors import BrokenPredictor, GatePredictor, SlowPredictor
from tests.rpc.harness.requests import stream, stream_request

COLD: dict[str, Any] = {"seed": 5, "temperature": 0.0}
MUCH = {"max_tokens": 400, "ignore_eos": True}


def test_the_end_has_its_reason_and_its_match(target: RunningTarget) -> None:
    ids = ask(target, contract_request(sampling=COLD)).answer.token_ids
    text = target.server._servicer.serving().model.tokenizer.token_text(ids[3])
    (eos,) = target.server._servicer.serving().model.eos_token_ids
    for stopping, guided, reason, words, match in (
        ({"max_tokens": 24}, {}, "LENGTH", "max_tokens", {}),
        ({"conditions": [{"stop_token_id": 0}], "max_tokens": 9}, {}, "LENGTH", "max_tokens", {}),
        ({"conditions": [{"stop_token_id": ids[3]}]}, {}, "STOP", "stop_token", {"stop_token_id": ids[3]}),
        ({"conditions": [{"stop_text": text}]}, {}, "STOP", "stop_string", {"stop_text": text}),
        ({"ignore_eos": False}, {"regex": "x"}, "STOP", "stop_token", {"eos_token_id": eos}),
        ({"conditions": [{"stop_token_id": eos}]}, {"regex": "x"}, "STOP", "stop_token", {"stop_token_id": eos}),
        ({"ignore_eos": True}, {"regex": "x"}, "STOP", "no_candidates", {}),
    ):
        answer = ask(target, contract_request(sampling=COLD, stopping=stopping, guided=guided)).answer
        assert (answer.reason, answer.end.message) == (reason, words)
        assert answer.end.stop_match == openengine_pb2.StopMatch(**match)
        assert answer.end.HasField("stop_match") == bool(match)


def test_tokens_are_counted_over_all_answers(target: RunningTarget) -> None:
    prompt = [*range(100, 180)]
    ask(target, contract_request(prompt))
    asked = ask(target, contract_request(prompt, sampling={"seed": 5, "num_sequences": 3}))
    usage = asked.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (80, 72, 152)
    assert 0 < usage.cached_prompt_tokens < 80
    assert sorted(asked.answers) == [0, 1, 2]


def test_a_request_is_named_in_every_event(target: RunningTarget) -> None:
    assert ask(target, contract_request(request_id="mine")).request_ids == {"mine"}
    (made,) = ask(target, contract_request()).request_ids
    assert made


def test_tokens_are_spelled_out(target: RunningTarget) -> None:
    tokenizer = target.server._servicer.serving().model.tokenizer
    for response in ({}, {"return_output_logprobs": True}):
        tokens = ask(target, contract_request(response=response)).answer.tokens
        assert [token.token for token in tokens] == [tokenizer.token_text(token.token_id) for token in tokens]
        assert {token.HasField("logprob") for token in tokens} == {token.HasField("rank") for token in tokens}
        assert {token.HasField("logprob") for token in tokens} == {bool(response)}


def test_the_prompts_tokens_come_once(target: RunningTarget) -> None:
    output = {"top_candidates": 4, "prompt_logprobs": True, "rank": True}
    ours = stream(target, stream_request(PROMPT, output=output))
    records = [record for prefill in ours.prefills for record in prefill.records]
    wanted = {"return_prompt_logprobs": True, "prompt_candidates": {"top_n": 3}}
    sampling = {"seed": 5, "num_sequences": 2}
    (prompt,) = ask(target, contract_request(response=wanted, sampling=sampling)).prompts
    assert [token.token_id for token in prompt.tokens] == PROMPT
    assert not prompt.tokens[0].HasField("logprob")
    assert not prompt.tokens[0].HasField("rank")
    told = [(token.logprob, token.rank, [each.token_id for each in token.candidates]) for token in prompt.tokens[1:]]
    assert told == [(one.raw_logprob, one.rank, [each.id for each in one.candidates[:3]]) for one in records[1:]]
    (part,) = ask(target, contract_request(response={**wanted, "prompt_logprob_start": 4})).prompts
    assert [*part.tokens] == [*prompt.tokens][4:]
    (least,) = ask(target, contract_request(response={"return_prompt_logprobs": True})).prompts
    assert not any(token.candidates for token in least.tokens)


def test_the_prompts_tokens_come_once_where_samples_do_not_wait() -> None:
    """On a model with states the second answer may begin before the first one's prompt is computed."""
    prompt = [*range(100, 200)]
    with target_server(further_checkpoint(Further.QWEN3_5), prefill_chunk=8) as target:
        ask(target, contract_request(prompt))
        request = contract_request(
            prompt, response={"return_prompt_logprobs": True}, sampling={"seed": 5, "num_sequences": 2}
        )
        asked = ask(target, request)
    (told,) = asked.prompts
    assert [token.token_id for token in told.tokens] == prompt
    assert sorted(asked.answers) == [0, 1]


def test_a_salt_keeps_caches_apart(target: RunningTarget) -> None:
    prompt = [*range(200, 280)]
    for kv, is_cached in (
        ({"cache_salt": "a"}, False),
        ({"cache_salt": "a"}, True),
        ({"cache_salt": "b"}, False),
        ({"cache_salt": "a", "bypass_prefix_cache": True}, False),
        ({"cache_salt": "a", "bypass_prefix_cache": False}, True),
    ):
        asked = ask(target, contract_request(prompt, kv=kv))
        assert (asked.usage.cached_prompt_tokens > 0) == is_cached


def test_near_the_deadline_the_tokens_so_far_arrive(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicer, "_MARGIN_SECONDS", MARGIN)
    monkeypatch.setattr(servicer, "_MARGIN_FRACTION", 1.0)
    with target_server(model, predictor=SlowPredictor()) as slow:
        request = contract_request(stopping=MUCH)
        cut = ended_in_time(lambda seconds: ask(slow, request, timeout=MARGIN + seconds).answer)
        assert (cut.reason, cut.end.message) == ("CANCELLED", "deadline")
        assert 0 < len(cut.token_ids) < 400


def test_a_model_that_is_not_there_is_not_found(target: RunningTarget) -> None:
    with pytest.raises(grpc.RpcError, match="model 'other' is not served here; allowed: ") as failure:
        ask(target, contract_request(model="other"))
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND
    name = target.model.name
    assert ask(target, contract_request(model=name)).answer == ask(target, contract_request()).answer


def test_a_refusal_is_a_status(model: Path) -> None:
    with target_server(model, loads=False) as target, pytest.raises(grpc.RpcError) as failure:
        ask(target, contract_request())
    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
    gate = GatePredictor()
    full = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_queue=0)
    with target_server(model, predictor=gate, server=full, max_sequences=1) as target:
        gate.gate.clear()
        call = inference(target).Generate(contract_request(stopping=MUCH), timeout=60)
        next(call)
        with pytest.raises(grpc.RpcError) as failure:
            ask(target, contract_request())
        gate.gate.set()
        call.cancel()
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "grpc-retry-pushback-ms" in {key for key, _ in failure.value.trailing_metadata()}


def test_a_failure_after_the_acceptance_is_the_last_event(model: Path) -> None:
    gate = GatePredictor()
    with administered_target(model, predictor=gate) as (target, admin):
        gate.gate.clear()
        call = inference(target).Generate(
            contract_request(request_id="a", sampling={"seed": 5, "num_sequences": 2}, stopping=MUCH), timeout=60
        )
        next(call)
        admin.CancelRequest(admin_pb2.CancelRequestRequest(request_id="a"))
        gate.gate.set()
        asked = taken(call)
        (error,) = asked.errors
        assert (error.code, error.retryable) == (openengine_pb2.ERROR_CODE_CANCELLED, False)
        assert "cancelled" in error.message
        assert asked.usage.prompt_tokens == 7
        assert call.code() is grpc.StatusCode.OK


def test_an_engine_that_breaks_is_an_error_that_may_pass(model: Path) -> None:
    predictor = BrokenPredictor()
    with target_server(model, predictor=predictor) as target:
        call = inference(target).Generate(contract_request(stopping=MUCH), timeout=60)
        next(call)
        predictor.is_broken = True
        (error,) = taken(call).errors
        assert error.code == openengine_pb2.ERROR_CODE_INTERNAL
        assert call.code() is grpc.StatusCode.OK


def test_a_server_that_ends_says_that_a_retry_may_help(model: Path) -> None:
    gate = GatePredictor()
    with target_server(model, predictor=gate) as target:
        gate.gate.clear()
        call = inference(target).Generate(contract_request(stopping=MUCH), timeout=60)
        next(call)
        target.engine.abandon("the server is shutting down")
        gate.gate.set()
        (error,) = taken(call).errors
        assert (error.code, error.retryable) == (openengine_pb2.ERROR_CODE_INTERNAL, True)
        assert "shutting down" in error.message


def test_a_reader_who_leaves_frees_its_blocks(target: RunningTarget) -> None:
    call = inference(target).Generate(contract_request(stopping=MUCH), timeout=60)
    next(call)
    call.cancel()
    target.assert_all_free()


def test_the_contracts_calls_are_counted_separately(target: RunningTarget) -> None:
    calls = target.server._server.calls
    name = "openengine.v1.Inference/Generate"
    before = calls[name, "OK"]
    ask(target, contract_request())
    wait_until(lambda: calls[name, "OK"] == before + 1)
