"""Bad input gets one answer that names every bad field, and affects no other request."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import generation_pb2
from tests.harness.models.checkpoints import CONTEXT_LENGTH, VOCAB_SIZE, copy_of
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.chat_examples import BAD_CHATS
from tests.rpc.harness.guidance_examples import BAD_GUIDANCE
from tests.rpc.harness.infill_examples import BAD_INFILLS
from tests.rpc.harness.requests import PROMPT, as_unary, stream, stream_request, violations
from tests.rpc.harness.sampler_examples import BAD_SAMPLERS

BAD = {
    **BAD_CHATS,
    **BAD_GUIDANCE,
    **BAD_INFILLS,
    **BAD_SAMPLERS,
    "no prompt": ({"prompt": {}}, "prompt", "text, token_ids or chat"),
    "empty text": ({"prompt": {"text": ""}}, "prompt.text", "at least one"),
    "empty ids": ({"prompt": {"token_ids": {}}}, "prompt.token_ids.ids", "at least one"),
    "unknown id": (
        {"prompt": {"token_ids": {"ids": [3, 9999]}}},
        "prompt.token_ids.ids[1]",
        "is 9999; allowed: 0 to 511",
    ),
    "long prompt": (
        {"prompt": {"token_ids": {"ids": [7] * CONTEXT_LENGTH}}},
        "prompt.token_ids.ids",
        f"is {CONTEXT_LENGTH} tokens long; allowed: at most {CONTEXT_LENGTH - 1}",
    ),
    "temperature below 0": ({"sampling": {"temperature": -0.5}}, "sampling.temperature", "is -0.5; allowed: at least"),
    "temperature is NaN": ({"sampling": {"temperature": math.nan}}, "sampling.temperature", "is nan"),
    "endless temperature": ({"sampling": {"temperature": math.inf}}, "sampling.temperature", "is inf"),
    "temperature beyond 32 bits": (
        {"sampling": {"temperature": 1e39}},
        "sampling.temperature",
        "is 1e+39; allowed: at least 0, at most 3.40282e+38",
    ),
    "top_k below 0": ({"sampling": {"top_k": -1}}, "sampling.top_k", "at least 0"),
    "top_p is 0": ({"sampling": {"top_p": 0.0}}, "sampling.top_p", "is 0; allowed: above 0, at most 1"),
    "top_p above 1": ({"sampling": {"top_p": 1.5}}, "sampling.top_p", "is 1.5"),
    "top_p is NaN": ({"sampling": {"top_p": math.nan}}, "sampling.top_p", "is nan"),
    "min_p below 0": ({"sampling": {"min_p": -0.1}}, "sampling.min_p", "at least 0, at most 1"),
    "min_p above 1": ({"sampling": {"min_p": 1.1}}, "sampling.min_p", "is 1.1"),
    "repetition penalty 0": (
        {"sampling": {"repetition_penalty": 0.0}},
        "sampling.repetition_penalty",
        "at least 0.001",
    ),
    "repetition penalty that is 0 in 32 bits": (
        {"sampling": {"repetition_penalty": 1e-46}},
        "sampling.repetition_penalty",
        "is 1e-46; allowed: at least 0.001, at most 1000",
    ),
    "repetition penalty that divides beyond 32 bits": (
        {"sampling": {"repetition_penalty": 1e-38}},
        "sampling.repetition_penalty",
        "is 1e-38; allowed: at least 0.001, at most 1000",
    ),
    "frequency penalty": ({"sampling": {"frequency_penalty": 2.5}}, "sampling.frequency_penalty", "at most 2"),
    "presence penalty": ({"sampling": {"presence_penalty": math.nan}}, "sampling.presence_penalty", "is nan"),
    "bias of an unknown id": (
        {"sampling": {"logit_bias": [{"token_id": VOCAB_SIZE, "bias": 1.0}]}},
        "sampling.logit_bias[0].token_id",
        "is 512",
    ),
    "bias is NaN": (
        {"sampling": {"logit_bias": [{"token_id": 1, "bias": math.nan}]}},
        "sampling.logit_bias[0].bias",
        "is nan; allowed: at least -1e+30, at most 1e+30, or minus infinity",
    ),
    "bias too large": (
        {"sampling": {"logit_bias": [{"token_id": 1, "bias": 1e30}, {"token_id": 2, "bias": 3.4e38}]}},
        "sampling.logit_bias[1].bias",
        "is 3.4e+38; allowed: at least -1e+30, at most 1e+30, or minus infinity",
    ),
    "allowed id unknown": (
        {"sampling": {"allowed_token_ids": [1, VOCAB_SIZE]}},
        "sampling.allowed_token_ids[1]",
        "is 512; allowed: 0 to 511",
    ),
    "too many allowed ids": (
        {"sampling": {"allowed_token_ids": [1] * (VOCAB_SIZE + 1)}},
        "sampling.allowed_token_ids",
        "has 513 entries; allowed: at most 512",
    ),
    "bias twice": (
        {"sampling": {"logit_bias": [{"token_id": 1, "bias": 1.0}, {"token_id": 1, "bias": 2.0}]}},
        "sampling.logit_bias",
        "names token 1 more than once",
    ),
    "too many biases": (
        {"sampling": {"logit_bias": [{"token_id": 1, "bias": 1.0}] * 513}},
        "sampling.logit_bias",
        "has 513 entries; allowed: at most 512",
    ),
    "empty banned string": (
        {"sampling": {"banned_strings": ["a", ""]}},
        "sampling.banned_strings[1]",
        "1 to 128 bytes",
    ),
    "long banned string": ({"sampling": {"banned_strings": ["ä" * 65]}}, "sampling.banned_strings[0]", "has 130 bytes"),
    "no character banned": (
        {"sampling": {"banned_strings": ["a\ufffd"]}},
        "sampling.banned_strings[0]",
        "has U+FFFD; allowed: strings of characters",
    ),
    "too many banned strings": (
        {"sampling": {"banned_strings": ["a"] * 129}},
        "sampling.banned_strings",
        "has 129 entries; allowed: at most 128",
    ),
    "empty stop string": ({"stop": {"strings": ["a", ""]}}, "stop.strings[1]", "1 to 256 bytes"),
    "long stop string": ({"stop": {"strings": ["ä" * 129]}}, "stop.strings[0]", "has 258 bytes"),
    "too many stop strings": ({"stop": {"strings": ["a"] * 17}}, "stop.strings", "at most 16"),
    "unknown stop id": ({"stop": {"token_ids": [4_000_000_000]}}, "stop.token_ids[0]", "is 4000000000"),
    "too many stop ids": ({"stop": {"token_ids": [5] * 65}}, "stop.token_ids", "at most 64"),
    "max_tokens is 0": ({"stop": {"max_tokens": 0}}, "stop.max_tokens", "is 0; allowed: at least 1"),
    "max_tokens below 0": ({"stop": {"max_tokens": -4}}, "stop.max_tokens", "is -4"),
    "min_tokens below 0": ({"stop": {"min_tokens": -1}}, "stop.min_tokens", "is -1"),
    "min above max": ({"stop": {"min_tokens": 9, "max_tokens": 8}}, "stop.min_tokens", "which is 8"),
    "min above the room": ({"stop": {"min_tokens": CONTEXT_LENGTH}}, "stop.min_tokens", "at most max_tokens"),
    "time limit of 0": ({"stop": {"time_limit": {}}}, "stop.time_limit", "is 0; allowed: above 0"),
    "time limit of a day and a second": ({"stop": {"time_limit": {"seconds": 86401}}}, "stop.time_limit", "is 86401"),
    "time limit below 0": ({"stop": {"time_limit": {"nanos": -500_000_000}}}, "stop.time_limit", "is -0.5"),
    "loop of nothing": ({"stop": {"loop": {"repetitions": 2}}}, "stop.loop.window", "is 0; allowed: at least 2"),
    "loop once": ({"stop": {"loop": {"window": 8, "repetitions": 1}}}, "stop.loop.repetitions", "is 1; allowed: at"),
    "loop without repetitions": ({"stop": {"loop": {"window": 8}}}, "stop.loop.repetitions", "at least 2"),
    "loop too short": ({"stop": {"loop": {"window": 8, "repetitions": 9}}}, "stop.loop.window", "at least 9, at most"),
    "loop too long": ({"stop": {"loop": {"window": 4097, "repetitions": 2}}}, "stop.loop.window", "at most 4096"),
    "too many repetitions": (
        {"stop": {"loop": {"window": 8, "repetitions": 4097}}},
        "stop.loop.repetitions",
        "at most 4096",
    ),
    "grammar of no kind": ({"grammar": {}}, "grammar", "is of no kind; allowed: json_schema, regex, lark, choice"),
    "schema that is no JSON": ({"grammar": {"json_schema": "{"}}, "grammar.json_schema", "Expecting property name"),
    "schema of no type": ({"grammar": {"json_schema": '{"type": "hue"}'}}, "grammar.json_schema", "Invalid type: hue"),
    "empty schema": ({"grammar": {"json_schema": ""}}, "grammar.json_schema", "is empty"),
    "open group": ({"grammar": {"regex": "a("}}, "grammar.regex", "unclosed group"),
    "long regex": ({"grammar": {"regex": "a" * 65537}}, "grammar.regex", "has 65537 bytes; allowed: at most 65536"),
    "unknown rule": ({"grammar": {"lark": "start: nothing"}}, "grammar.lark", 'unknown name: "nothing"'),
    "costly rules": (
        {"grammar": {"lark": "start: " + "(" * 9999}},
        "grammar.lark",
        "too deeply nested",
    ),
    "no choice": ({"grammar": {"choice": {}}}, "grammar.choice", "at least one character"),
    "empty choice": ({"grammar": {"choice": {"texts": ["a", ""]}}}, "grammar.choice", "has an empty text"),
    "candidates below 0": ({"output": {"top_candidates": -1}}, "output.top_candidates", "at least 0, at most 20"),
    "too many candidates": ({"output": {"top_candidates": 21}}, "output.top_candidates", "is 21"),
    "too many logits": (
        {"output": {"logits": True, "logits_token_ids": [1] * 257}},
        "output.logits_token_ids",
        "has 257 entries; allowed: at most 256",
    ),
    "logits of an unknown id": (
        {"output": {"logits": True, "logits_token_ids": [1, VOCAB_SIZE]}},
        "output.logits_token_ids[1]",
        "is 512; allowed: 0 to 511",
    ),
    "ids of logits that are not asked": (
        {"output": {"logits_token_ids": [1]}},
        "output.logits_token_ids",
        "has 1 entries; allowed: only with output.logits",
    ),
    "unknown mode": ({"speculation": {"mode": 77}}, "speculation.mode", "is 77"),
    "no predictions": ({"speculation": {"mode": 3, "num_predictions": 0}}, "speculation.num_predictions", "at least 1"),
    "too many predictions": (
        {"speculation": {"mode": 3, "num_predictions": 16}},
        "speculation.num_predictions",
        "at most 15",
    ),
    "predictions without ALWAYS": (
        {"speculation": {"num_predictions": 3}},
        "speculation.num_predictions",
        "only with SPECULATION_MODE_ALWAYS",
    ),
    "no samples": ({"num_samples": 0}, "num_samples", "is 0; allowed: at least 1, at most 16"),
    "too many samples": ({"num_samples": 17}, "num_samples", "is 17; allowed: at least 1, at most 16"),
    "best of too few": ({"num_samples": 3, "best_of": 2}, "best_of", "is 2; allowed: at least num_samples, which is 3"),
    "best of none": ({"best_of": 0}, "best_of", "is 0; allowed: at least 1, at most 16"),
    "best of too many": ({"best_of": 17}, "best_of", "is 17; allowed: at least 1, at most 16"),
    "long salt": ({"cache": {"salt": "ä" * 65}}, "cache.salt", "has 130 bytes; allowed: at most 128 bytes"),
    "expected with NEVER": (
        {"speculation": {"mode": 1, "expected": {"ids": [1]}}},
        "speculation.expected",
        "is set; allowed: not to be",
    ),
    "expected text with NEVER": (
        {"speculation": {"mode": 1, "expected_text": "x"}},
        "speculation.expected_text",
        "is set; allowed: not to be",
    ),
    "expected text too long": (
        {"speculation": {"expected_text": "x" * 100_000}},
        "speculation.expected_text",
        "has 100000 bytes; allowed: at most",
    ),
    "expected twice": (
        {"speculation": {"expected_text": "x", "expected": {"ids": [1]}}},
        "speculation.expected_text",
        "is set; allowed: only without expected",
    ),
    "expected ids beyond the vocabulary": (
        {"speculation": {"expected": {"ids": [1, 512]}}},
        "speculation.expected.ids[1]",
        "is 512; allowed: 0 to 511",
    ),
    "lookup with NEVER": (
        {"speculation": {"mode": 1, "lookup": True}},
        "speculation.lookup",
        "is true; allowed: false",
    ),
    "empty request id": ({"request_id": ""}, "request_id", "printable"),
    "adapter that there is not": ({"lora": "other"}, "lora", "'other' is not loaded; allowed: none"),
    "priority above the highest": ({"priority": 11}, "priority", "at least -10, at most 10"),
    "request id of two lines": ({"request_id": "a\nb"}, "request_id", "printable"),
}


@pytest.mark.parametrize(("fields", "field", "said"), BAD.values(), ids=BAD.keys())
def test_a_bad_field_is_named_with_its_value_and_range(
    target: RunningTarget, fields: dict[str, Any], field: str, said: str
) -> None:
    fields = {"prompt": {"text": PROMPT}, **fields}
    request = generation_pb2.StreamGenerateRequest(**fields)
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, request)
    found = violations(failure.value)
    assert list(found) == [field]
    assert said in found[field]
    with pytest.raises(grpc.RpcError) as failure:
        target.stub.Generate(as_unary(request), timeout=60)
    assert violations(failure.value) == found


def test_all_bad_fields_are_named_in_one_answer(target: RunningTarget) -> None:
    request = generation_pb2.StreamGenerateRequest(
        prompt={"token_ids": {"ids": [1, 2, 600, 601]}},
        sampling={
            "temperature": math.nan,
            "top_k": -2,
            "top_p": 7.0,
            "min_p": -1.0,
            "repetition_penalty": -1.0,
            "frequency_penalty": 9.0,
            "presence_penalty": -9.0,
            "logit_bias": [{"token_id": 700, "bias": math.inf}] * 513,
        },
        stop={"strings": [""] * 17, "token_ids": [800] * 65, "max_tokens": -1, "min_tokens": -1},
        output={"top_candidates": 1000, "logits_token_ids": [999] * 257},
        speculation={"mode": 9, "num_predictions": 99},
        continue_from={"token_ids": [900], "fingerprint": ""},
        request_id="x" * 129,
    )
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, request)
    assert set(violations(failure.value)) == {
        "continue_from.fingerprint",
        "continue_from.token_ids[0]",
        "output.logits_token_ids",
        "output.logits_token_ids[0]",
        "output.top_candidates",
        "prompt.token_ids.ids[2]",
        "request_id",
        "sampling.frequency_penalty",
        "sampling.logit_bias",
        "sampling.logit_bias[0].bias",
        "sampling.logit_bias[0].token_id",
        "sampling.min_p",
        "sampling.presence_penalty",
        "sampling.repetition_penalty",
        "sampling.seed",
        "sampling.temperature",
        "sampling.top_k",
        "sampling.top_p",
        "speculation.mode",
        "speculation.num_predictions",
        "stop.max_tokens",
        "stop.min_tokens",
        "stop.strings",
        "stop.strings[0]",
        "stop.token_ids",
        "stop.token_ids[0]",
    }


def test_bad_requests_leave_a_running_stream_alone(target: RunningTarget) -> None:
    request = stream_request(stop={"max_tokens": 64, "ignore_eos": True})
    alone = stream(target, request)
    call = target.stub.StreamGenerate(request, timeout=60)
    events = [next(call)]
    for fields, _, _ in list(BAD.values())[:10]:
        with pytest.raises(grpc.RpcError):
            stream(target, generation_pb2.StreamGenerateRequest(**{"prompt": {"text": PROMPT}, **fields}))
    events.extend(call)
    assert [i for event in events for i in event.chunk.token_ids] == alone.token_ids


def test_tokenize_and_detokenize_name_bad_fields(target: RunningTarget) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        target.stub.Tokenize(generation_pb2.TokenizeRequest())
    assert violations(failure.value) == {"input": "is not set; allowed: text or chat"}
    with pytest.raises(grpc.RpcError) as failure:
        target.stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=[5, 512]))
    assert violations(failure.value) == {"token_ids[1]": "is 512; allowed: 0 to 511"}


@pytest.mark.usefixtures("templates_have_time")
def test_a_chat_too_slow_for_its_template_is_refused_by_name(model: Path, tmp_path: Path) -> None:
    """Health answers meanwhile, and the next chat finds a worker."""
    folder = copy_of(model, tmp_path)
    quadratic = "{% for a in messages[0].content %}{% for b in messages[0].content %}{% endfor %}{% endfor %}hi"
    (folder / "chat_template.jinja").write_text(quadratic)
    with target_server(folder) as target, ThreadPoolExecutor(1) as pool:
        heavy = pool.submit(stream, target, stream_request(prompt=chat_of("x" * 20_000)))
        while not heavy.done():
            assert target.health() == "SERVING"
            time.sleep(0.05)
        with pytest.raises(grpc.RpcError) as failure:
            heavy.result()
        assert violations(failure.value) == {
            "prompt.chat.messages": "the chat template cannot render the messages: it takes more than 1 s; "
            "allowed: what the template accepts"
        }
        assert stream(target, stream_request(prompt=chat_of("x"), stop={"max_tokens": 3})).token_ids


def chat_of(content: str) -> dict[str, object]:
    return {"chat": {"messages": [{"role": "user", "content": content}]}}
