"""Every field of a request has its effect, or is refused by its name."""

import math
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor import Descriptor

from outrider.v1 import generation_pb2
from services.service.validation import Violations
from services.target.openengine.request import read_request
from services.target.openengine.v1 import openengine_pb2
from tests.harness.models.checkpoints import CONTEXT_LENGTH
from tests.harness.servers.server import RunningTarget
from tests.openengine.asking import PROMPT, ask, contract_request, inference
from tests.rpc.harness.requests import stream, stream_request, violations

SMALL_IDS = [*range(60)]
_SCHEMA = '{"enum": [17, 18]}'
_STOPS = [{"stop_token_id": token_id} for token_id in SMALL_IDS]
_TEXTS = ["e", "t", "a", "i"]
EFFECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sampling.temperature": ({"sampling": {"temperature": 0.3}}, {"sampling": {"temperature": 0.3}}),
    "sampling.top_p": ({"sampling": {"top_p": 0.4}}, {"sampling": {"top_p": 0.4}}),
    "sampling.top_k": ({"sampling": {"top_k": 3}}, {"sampling": {"top_k": 3}}),
    "sampling.min_p": ({"sampling": {"min_p": 0.8}}, {"sampling": {"min_p": 0.8}}),
    "sampling.frequency_penalty": (
        {"sampling": {"frequency_penalty": -2.0}},
        {"sampling": {"frequency_penalty": -2.0}},
    ),
    "sampling.presence_penalty": ({"sampling": {"presence_penalty": -2.0}}, {"sampling": {"presence_penalty": -2.0}}),
    "sampling.repetition_penalty": (
        {"sampling": {"repetition_penalty": 3.1}},
        {"sampling": {"repetition_penalty": 3.1}},
    ),
    "sampling.seed": ({"sampling": {"seed": 2**64 - 1}}, {"sampling": {"seed": 2**64 - 1}}),
    "stopping.max_tokens": ({"stopping": {"max_tokens": 3}}, {"stop": {"max_tokens": 3}}),
    "stopping.min_tokens": (
        {"stopping": {"conditions": _STOPS, "min_tokens": 9}},
        {"stop": {"token_ids": SMALL_IDS, "min_tokens": 9}},
    ),
    "stopping.conditions": (
        {"stopping": {"conditions": [*_STOPS, *({"stop_text": text} for text in _TEXTS)]}},
        {"stop": {"token_ids": SMALL_IDS, "strings": _TEXTS}},
    ),
    "stopping.include_stop_in_output": (
        {"stopping": {"conditions": [{"stop_text": text} for text in _TEXTS], "include_stop_in_output": True}},
        {"stop": {"strings": _TEXTS, "include_stop": True}},
    ),
    "guided.json_schema": ({"guided": {"json_schema": _SCHEMA}}, {"grammar": {"json_schema": _SCHEMA}}),
    "guided.regex": ({"guided": {"regex": "[xy]{30}"}}, {"grammar": {"regex": "[xy]{30}"}}),
    "guided.ebnf_grammar": (
        {"guided": {"ebnf_grammar": 'root ::= ("x" | "y"){30}'}},
        {"grammar": {"regex": "[xy]{30}"}},
    ),
    "guided.choice": (
        {"guided": {"choice": {"choices": ["one", "two"]}}},
        {"grammar": {"choice": {"texts": ["one", "two"]}}},
    ),
    "guided.json_object": ({"guided": {"json_object": {}}}, {"grammar": {"json_schema": '{"type": "object"}'}}),
    "extra.outrider.sampling": (
        {"extra": {"outrider": {"sampling": {"samplers": ["SAMPLER_TOP_K"], "topK": 3}}}},
        {"sampling": {"samplers": ["SAMPLER_TOP_K"], "top_k": 3}},
    ),
    "extra.outrider.stop": (
        {"extra": {"outrider": {"stop": {"loop": {"window": 2, "repetitions": 2}}}}, "sampling": {"temperature": 0.01}},
        {"stop": {"loop": {"window": 2, "repetitions": 2}}, "sampling": {"temperature": 0.01}},
    ),
    "extra.outrider.guidance": (
        {"extra": {"outrider": {"guidance": {"scale": 2.0, "negativePrompt": {"text": "x"}}}}},
        {"guidance": {"scale": 2.0, "negative_prompt": {"text": "x"}}},
    ),
}
ELSEWHERE = {
    "sampling.num_sequences",  # test_one_text, as most of these
    "stopping.ignore_eos",
    "guided.backend",
    *(f"response.{field.name}" for field in openengine_pb2.ResponseOptions.DESCRIPTOR.fields),
    *("kv.bypass_prefix_cache", "kv.cache_salt"),
}
_ALL = {"all": {}}
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no prompt": ({"token_ids": None}, "input", "is not set; allowed: prompt or token_ids"),
    "empty text": ({"prompt": ""}, "prompt", "at least one character"),
    "no ids": ({"token_ids": {}}, "token_ids.ids", "at least one token"),
    "unknown id": ({"token_ids": {"ids": [3, 9999]}}, "token_ids.ids[1]", "is 9999; allowed: 0 to 511"),
    "many ids": ({"token_ids": {"ids": [7] * CONTEXT_LENGTH}}, "token_ids.ids", "tokens long"),
    "request_id": ({"request_id": "x" * 129}, "request_id", "has 129 bytes"),
    "media": ({"media": [{"url": "http://there"}]}, "media", "is set; allowed: not to be"),
    "lora_name": ({"lora_name": "none"}, "lora_name", "'none' is not loaded"),
    "session of another engine": ({"kv": {"session": {"session_id": "1"}}}, "kv.session", "is set; allowed: not to be"),
    "salt": ({"kv": {"cache_salt": "x" * 129}}, "kv.cache_salt", "at most 128"),
    "temperature": ({"sampling": {"temperature": -1.0}}, "sampling.temperature", "is -1"),
    "top_p": ({"sampling": {"top_p": math.nan}}, "sampling.top_p", "is nan"),
    "top_k": ({"sampling": {"top_k": -2}}, "sampling.top_k", "is -2"),
    "min_p": ({"sampling": {"min_p": 1.5}}, "sampling.min_p", "is 1.5"),
    "frequency": ({"sampling": {"frequency_penalty": 3.0}}, "sampling.frequency_penalty", "is 3"),
    "presence": ({"sampling": {"presence_penalty": -3.0}}, "sampling.presence_penalty", "is -3"),
    "repetition": ({"sampling": {"repetition_penalty": -1.0}}, "sampling.repetition_penalty", "at least 0.001"),
    "num_sequences": ({"sampling": {"num_sequences": 0}}, "sampling.num_sequences", "is 0; allowed: at least 1"),
    "many sequences": ({"sampling": {"num_sequences": 2**32 - 1}}, "sampling.num_sequences", "at most 16"),
    "max_tokens": ({"stopping": {"max_tokens": 0}}, "stopping.max_tokens", "at least 1"),
    "large max_tokens": ({"stopping": {"max_tokens": 2**32 - 1}}, "stopping.max_tokens", "at most"),
    "min_tokens": ({"stopping": {"max_tokens": 2, "min_tokens": 25}}, "stopping.min_tokens", "at most max_tokens"),
    "empty condition": (
        {"stopping": {"conditions": [{"stop_token_id": 0}, {}]}},
        "stopping.conditions[1]",
        "is not set",
    ),
    "empty stop": ({"stopping": {"conditions": [{"stop_text": ""}]}}, "stopping.conditions", "has 0 bytes"),
    "many stops": ({"stopping": {"conditions": [{"stop_text": "x"}] * 17}}, "stopping.conditions", "has 17 entries"),
    "unknown stop": ({"stopping": {"conditions": [{"stop_token_id": 512}]}}, "stopping.conditions", "is 512"),
    "prompt ids": (
        {"response": {"prompt_candidates": {"token_ids": {"ids": [3]}}}},
        "response.prompt_candidates.token_ids",
        "is set; allowed: top_n, at most 20",
    ),
    "all": ({"response": {"output_candidates": _ALL}}, "response.output_candidates.all", "allowed: top_n, at most 20"),
    "top_n": ({"response": {"output_candidates": {"top_n": 21}}}, "response.output_candidates.top_n", "at most 20"),
    "start": ({"response": {"prompt_logprob_start": 3}}, "response.prompt_logprob_start", "return_prompt_logprobs"),
    "json_schema": ({"guided": {"json_schema": '{"type": 3}'}}, "guided.json_schema", "cannot be followed"),
    "regex": ({"guided": {"regex": "(("}}, "guided.regex", "cannot be followed"),
    "grammar": ({"guided": {"ebnf_grammar": "start: ("}}, "guided.ebnf_grammar", "cannot be followed"),
    "gbnf": ({"guided": {"ebnf_grammar": 'root ::= ("x" | '}}, "guided.ebnf_grammar", "is no GBNF: "),
    "structural_tag": ({"guided": {"structural_tag": "{}"}}, "guided.structural_tag", "is set; allowed: not to be"),
    "choice": ({"guided": {"choice": {}}}, "guided.choice", "is empty"),
    "backend": ({"guided": {"backend": "xgrammar"}}, "guided.backend", "is 'xgrammar'; allowed: 'llguidance'"),
    "extra": ({"extra": {"outrider": 3}}, "extra.outrider", "is not understood"),
    "infinite": ({"extra": {"outrider": {"seed": math.inf}}}, "extra.outrider", "is not understood"),
    "misspelled": ({"extra": {"outrider": {"sampeling": {}}}}, "extra.outrider", "sampeling"),
    "model": ({"extra": {"outrider": {"model": "x"}}}, "extra.outrider.model", "is set; allowed: prompt, sampling"),
    "text": ({"extra": {"outrider": {"prompt": {"text": "x"}}}}, "extra.outrider.prompt.text", "is set; allowed: add_"),
    "mode": ({"extra": {"outrider": {"speculation": {"mode": 99}}}}, "extra.outrider.speculation.mode", "is 99"),
}


def fields_of(message: Descriptor) -> set[str]:
    return {field.name for field in message.fields}


def test_every_field_of_the_contract_is_read_or_refused() -> None:
    parts = {
        "sampling": openengine_pb2.SamplingParams,
        "stopping": openengine_pb2.StoppingOptions,
        "response": openengine_pb2.ResponseOptions,
        "kv": openengine_pb2.KvOptions,
        "guided": openengine_pb2.GuidedDecoding,
    }
    there = {f"{name}.{field}" for name, part in parts.items() for field in fields_of(part.DESCRIPTOR)}
    refused = {field for _, field, _ in REFUSED.values()}
    assert there <= EFFECTS.keys() | ELSEWHERE | refused
    read = {"model", "prompt", "token_ids", "extra", *parts}
    assert fields_of(openengine_pb2.GenerateRequest.DESCRIPTOR) <= read | refused


@pytest.mark.parametrize("name", EFFECTS)
def test_a_field_has_the_effect_of_ours(target: RunningTarget, name: str) -> None:
    fields, ours = EFFECTS[name]
    hot = {"seed": 5, "temperature": 1.0}
    request = stream_request(PROMPT, sampling=hot)
    request.MergeFrom(generation_pb2.StreamGenerateRequest(**ours))
    expected = stream(target, request)
    theirs = contract_request(sampling=hot)
    theirs.MergeFrom(openengine_pb2.GenerateRequest(**fields))
    answer = ask(target, theirs).answer
    assert (answer.token_ids, answer.text) == (expected.token_ids, expected.text)
    assert ask(target, contract_request(sampling=hot)).answer.text != answer.text


def test_what_is_not_set_is_as_in_our_own_requests(target: RunningTarget) -> None:
    expected = stream(target, stream_request("import os")).text
    assert ask(target, contract_request("import os")).answer.text == expected
    assert ask(target, contract_request("import os", sampling={"seed": 5, "top_k": -1})).answer.text == expected
    assert ask(target, contract_request("import os", guided={"backend": "llguidance"})).answer.text == expected


def test_a_number_of_32_bits_is_the_decimal_that_it_stands_for(target: RunningTarget) -> None:
    """Routers widen them: their 0.9 is 0.8999999761581421."""
    for value in (0.9, 0.1, 0.75):
        wide = float(np.float32(value))
        expected = stream(target, stream_request(PROMPT, sampling={"seed": 5, "temperature": value, "top_p": value}))
        sampling = {"seed": 5, "temperature": wide, "top_p": wide}
        told = ask(target, contract_request(sampling=sampling, response={"return_output_logprobs": True})).answer
        assert told.token_ids == expected.token_ids
        request = read_request(
            contract_request(sampling=sampling), target.server._servicer.serving().model, priority=0, found=Violations()
        )
        assert (request.sampling.temperature, request.sampling.top_p) == (value, value)


def test_options_of_other_engines_are_passed_over(target: RunningTarget) -> None:
    extra = {"another": {"knob": [1, 2.5, None]}}
    assert ask(target, contract_request(extra=extra)).answer == ask(target, contract_request()).answer
    extra = {"another": math.inf, "outrider": {}}
    assert ask(target, contract_request(extra=extra)).answer == ask(target, contract_request()).answer


def refusal(target: RunningTarget, request: openengine_pb2.GenerateRequest, metadata: Any = None) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as failure:
        list(inference(target).Generate(request, timeout=60, metadata=metadata))
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return failure.value


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_served_is_named(target: RunningTarget, case: str) -> None:
    changes, field, said = REFUSED[case]
    base: dict[str, Any] = {} if {"token_ids", "prompt"} & changes.keys() else {"prompt": "x"}
    error = refusal(target, openengine_pb2.GenerateRequest(**{**base, **changes}))
    assert said in violations(error)[field]
    assert f"{field} " in error.details(), "routers pass on the message alone"


def test_a_field_of_a_later_contract_is_refused_by_its_number(target: RunningTarget) -> None:
    request = contract_request()
    late = openengine_pb2.GenerateRequest.FromString(request.SerializeToString() + b"\xf8\x3f\x01")  # 1023: true
    late.sampling.MergeFromString(b"\xf0\x3f\x01")
    late.response.output_candidates.MergeFromString(b"\xf0\x3f\x01")
    numbers = {"1023", "sampling.1022", "response.output_candidates.1022"}
    assert violations(refusal(target, late)).keys() == numbers


@pytest.mark.parametrize(
    ("metadata", "field", "said"),
    [
        ([("openengine-priority", "high")], "openengine-priority", "is 'high'; allowed: a decimal number"),
        ([("openengine-priority", "2147483648")], "openengine-priority", "is '2147483648'"),
        ([("openengine-priority", "1"), ("openengine-priority", "1")], "openengine-priority", "more than once"),
        ([("openengine-target-dp-rank", "1")], "openengine-target-dp-rank", "is '1'; allowed: 0"),
        ([("openengine-target-dp-rank", "-0x")], "openengine-target-dp-rank", "is '-0x'"),
        ([("openengine-routing-key", "")], "openengine-routing-key", "is empty"),
    ],
)
def test_bad_metadata_is_named(target: RunningTarget, metadata: Any, field: str, said: str) -> None:
    assert said in violations(refusal(target, contract_request(), metadata))[field]


def test_good_metadata_is_taken(target: RunningTarget) -> None:
    keys = [
        ("openengine-priority", "-2147483648"),
        ("openengine-target-dp-rank", "0"),
        ("openengine-routing-key", "tenant 7"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ]
    assert ask(target, contract_request(), metadata=keys).answer == ask(target, contract_request()).answer
