"""Every field of a request has its effect, has none that the contract could show, or is refused by its name."""

import math
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import Descriptor
from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import generation_pb2
from tests.harness.models.checkpoints import CONTEXT_LENGTH
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.requests import stream, stream_request, violations
from tests.vllm_contract.asking import PROMPT, ask, contract_request, stub_of

HOT: dict[str, Any] = {"temperature": 1.0}
SMALL_IDS = [*range(60)]
_SCHEMA = '{"enum": [17, 18]}'
EFFECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "temperature": ({"temperature": 0.3}, {"sampling": {"temperature": 0.3}}),
    "top_p": ({"top_p": 0.4}, {"sampling": {"top_p": 0.4}}),
    "top_k": ({"top_k": 3}, {"sampling": {"top_k": 3}}),
    "min_p": ({"min_p": 0.8}, {"sampling": {"min_p": 0.8}}),
    "frequency_penalty": ({"frequency_penalty": -2.0}, {"sampling": {"frequency_penalty": -2.0}}),
    "presence_penalty": ({"presence_penalty": -2.0}, {"sampling": {"presence_penalty": -2.0}}),
    "repetition_penalty": ({"repetition_penalty": 3.1}, {"sampling": {"repetition_penalty": 3.1}}),
    "max_tokens": ({"max_tokens": 3}, {"stop": {"max_tokens": 3}}),
    "min_tokens": (
        {"stop_token_ids": SMALL_IDS, "min_tokens": 9},
        {"stop": {"token_ids": SMALL_IDS, "min_tokens": 9}},
    ),
    "stop": ({"stop": ["e", "t", "a", "i"]}, {"stop": {"strings": ["e", "t", "a", "i"]}}),
    "stop_token_ids": ({"stop_token_ids": SMALL_IDS}, {"stop": {"token_ids": SMALL_IDS}}),
    "seed": ({"seed": 99}, {"sampling": {"seed": 99}}),
    "logit_bias": (
        {"logit_bias": {7: 99.0, 9: 99.0}},
        {"sampling": {"logit_bias": [{"token_id": token_id, "bias": 99.0} for token_id in (7, 9)]}},
    ),
    "json_schema": ({"json_schema": _SCHEMA}, {"grammar": {"json_schema": _SCHEMA}}),
    "regex": ({"regex": "[xy]{30}"}, {"grammar": {"regex": "[xy]{30}"}}),
    "grammar": ({"grammar": 'start: ("x" | "y")*'}, {"grammar": {"lark": 'start: ("x" | "y")*'}}),
    "json_object": ({"json_object": True}, {"grammar": {"json_schema": '{"type": "object"}'}}),
    "choice": ({"choice": {"choices": ["one", "two"]}}, {"grammar": {"choice": {"texts": ["one", "two"]}}}),
}
NO_EFFECT = {  # on ids, which are all that the contract has
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "include_stop_str_in_output",
    "grammar_from_first_token",
}
TESTED_ELSEWHERE = {"n", "logprobs", "prompt_logprobs", "ignore_eos"}
REFUSED: dict[str, tuple[Any, str, str]] = {
    "no prompt": ({"sampling_params": {}}, "input", "tokenized or text"),
    "empty text": ({"text": ""}, "text", "at least one character"),
    "no ids": ({"tokenized": {}}, "tokenized.input_ids", "at least one token"),
    "unknown id": ({"tokenized": {"input_ids": [3, 9999]}}, "tokenized.input_ids[1]", "is 9999; allowed: 0 to 511"),
    "many ids": ({"tokenized": {"input_ids": [7] * CONTEXT_LENGTH}}, "tokenized.input_ids", "tokens long"),
    "request_id": ({"request_id": "x" * 129}, "request_id", "has 129 bytes"),
    "kv_transfer_params": ({"kv_transfer_params": {}}, "kv_transfer_params", "is set; allowed: not to be"),
    "kv_transfer_params_json": ({"kv_transfer_params_json": "{}"}, "kv_transfer_params_json", "is set"),
    "mm_inputs": ({"mm_inputs": {}}, "mm_inputs", "is set"),
    "extra_mm_inputs": ({"extra_mm_inputs": [{}]}, "extra_mm_inputs", "is set"),
    "media_refs": ({"media_refs": {}}, "media_refs", "is set"),
    "data_parallel_rank": ({"data_parallel_rank": 1}, "data_parallel_rank", "is 1; allowed: at least 0, at most 0"),
}
REFUSED_SAMPLING: dict[str, tuple[dict[str, Any], str]] = {
    "temperature": ({"temperature": -1.0}, "is -1"),
    "top_p": ({"top_p": math.nan}, "is nan"),
    "top_k": ({"top_k": 2**32 - 1}, "at most 2147483647"),
    "min_p": ({"min_p": 1.5}, "is 1.5"),
    "frequency_penalty": ({"frequency_penalty": 3.0}, "is 3"),
    "presence_penalty": ({"presence_penalty": -3.0}, "is -3"),
    "repetition_penalty": ({"repetition_penalty": -1.0}, "at least 0.001"),
    "max_tokens": ({"max_tokens": 0}, "at least 1"),
    "min_tokens": ({"min_tokens": 25}, "at most max_tokens, which is 24"),
    "stop": ({"stop": ["x"] * 17}, "has 17 entries; allowed: at most 16"),
    "stop_token_ids": ({"stop_token_ids": [0] * 65}, "has 65 entries"),
    "n": ({"n": 2**32 - 1}, "at most 16"),
    "logprobs": ({"logprobs": -1}, "at most 20"),
    "prompt_logprobs": ({"prompt_logprobs": 21}, "at most 20"),
    "logit_bias": ({"logit_bias": {-1: 1.0}}, "names token -1"),
    "truncate_prompt_tokens": ({"truncate_prompt_tokens": 5}, "is set; allowed: not to be"),
    "json_schema": ({"json_schema": '{"type": 3}'}, "cannot be followed"),
    "regex": ({"regex": "(("}, "cannot be followed"),
    "grammar": ({"grammar": "start: ("}, "cannot be followed"),
    "structural_tag": ({"structural_tag": "{}"}, "json_schema, regex, grammar"),
    "json_object": ({"json_object": False}, "is false; allowed: true"),
    "choice": ({"choice": {}}, "is empty"),
}


def names(message: Descriptor) -> set[str]:
    return {field.name for field in message.fields}


def test_every_field_of_the_contract_is_read_or_refused() -> None:
    params = vllm_engine_pb2.SamplingParams.DESCRIPTOR
    assert names(params) == EFFECTS.keys() | NO_EFFECT | TESTED_ELSEWHERE | REFUSED_SAMPLING.keys()
    read = {"tokenized", "text", "sampling_params", "stream"}
    assert names(vllm_engine_pb2.GenerateRequest.DESCRIPTOR) == read | (
        REFUSED.keys() & names(vllm_engine_pb2.GenerateRequest.DESCRIPTOR)
    )


@pytest.mark.parametrize("name", EFFECTS)
def test_a_field_has_the_effect_of_ours(target: RunningTarget, name: str) -> None:
    fields, ours = EFFECTS[name]
    request = stream_request(PROMPT, sampling={"seed": 5, **HOT})
    request.MergeFrom(generation_pb2.StreamGenerateRequest(**ours))
    expected = stream(target, request).token_ids
    assert ask(target, contract_request(**{**HOT, **fields})).token_ids == expected
    assert ask(target, contract_request(**HOT)).token_ids != expected


@pytest.mark.parametrize("name", sorted(NO_EFFECT))
def test_a_field_that_says_how_ids_become_text_changes_no_id(target: RunningTarget, name: str) -> None:
    plain = ask(target, contract_request(stop=["e", "t"], **HOT))
    assert ask(target, contract_request(stop=["e", "t"], **HOT, **{name: True})).end == plain.end


def test_unset_fields_are_off(target: RunningTarget) -> None:
    """The contract's zeros mean "off", whatever a checkpoint recommends: its clients know its defaults."""
    off = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
    expected = stream(target, stream_request(PROMPT, sampling={"seed": 5, **off})).token_ids
    assert ask(target, contract_request()).token_ids == expected


def refusal(target: RunningTarget, request: vllm_engine_pb2.GenerateRequest) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as failure:
        list(stub_of(target).Generate(request, timeout=60))
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return failure.value


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_requests_are_named(target: RunningTarget, case: str) -> None:
    changes, field, said = REFUSED[case]
    base = {} if {"tokenized", "text"} & changes.keys() or case == "no prompt" else {"text": "x"}
    error = refusal(target, vllm_engine_pb2.GenerateRequest(**{**base, **changes}))
    assert said in violations(error)[field]
    for part in (f"{field} ", said):
        assert part in error.details(), "routers pass on the message alone"


@pytest.mark.parametrize("name", REFUSED_SAMPLING)
def test_a_bad_parameter_is_named(target: RunningTarget, name: str) -> None:
    fields, said = REFUSED_SAMPLING[name]
    found = violations(refusal(target, contract_request(**fields)))
    (field,) = found
    assert field.partition("[")[0] in (f"sampling_params.{name}", f"sampling_params.{name}.choices")
    assert said in found[field]


def test_a_field_of_a_later_contract_is_refused_by_its_number(target: RunningTarget) -> None:
    request = contract_request()
    late = vllm_engine_pb2.GenerateRequest.FromString(request.SerializeToString() + b"\xf8\x3f\x01")  # 1023: true
    late.sampling_params.MergeFromString(b"\xf0\x3f\x01")
    found = violations(refusal(target, late))
    assert found.keys() == {"1023", "sampling_params.1022"}


def test_gbnf_is_a_grammar_too(target: RunningTarget) -> None:
    asked = ask(target, contract_request(grammar='root ::= ("x" | "y"){30}', max_tokens=8))
    text = target.server._servicer.serving().model.tokenizer
    assert {*b"".join(map(text.token_bytes, asked.token_ids))} <= {*b"xy"}
    found = violations(refusal(target, contract_request(grammar='root ::= ("x" | ')))
    assert "is no GBNF: " in found["sampling_params.grammar"]
