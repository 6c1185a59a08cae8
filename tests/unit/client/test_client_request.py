"""Options are sent as they are given: those left out stay unset, and those that cannot be sent are named."""

import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict

import outrider
from outrider.generate_options import GenerateOptions
from outrider.request import build_detokenize_request, build_stream_request, build_tokenize_request
from outrider.v1 import common_pb2, generation_pb2


def sent(prompt: outrider.Prompt = "p", **options: object) -> dict:
    """The request as the fields that are present in it."""
    return MessageToDict(build_stream_request(prompt, options), preserving_proto_field_name=True)


def test_options_left_out_stay_unset() -> None:
    assert sent() == {"prompt": {"text": "p"}}
    assert sent(**dict.fromkeys(GenerateOptions.__annotations__)) == {"prompt": {"text": "p"}}


TOOL = {"name": "f", "parameters": {"type": "object"}}
CHAT_OPTIONS = [
    ("tools", [TOOL], {"tools": [{"name": "f", "parameters": '{"type": "object"}'}]}),
    (
        "tools",
        [{"type": "function", "function": {"name": "f", "strict": True}}],
        {"tools": [{"name": "f", "strict": True}]},
    ),
    ("tool_choice", "required", {"tool_choice": {"mode": "TOOL_CHOICE_MODE_REQUIRED"}}),
    ("tool_choice", "f", {"tool_choice": {"tool": "f"}}),
    ("parallel_tool_calls", False, {"tool_choice": {"parallel": False}}),
    ("template_variables", {"enable_thinking": False}, {"template_variables": '{"enable_thinking": false}'}),
    ("add_generation_prompt", False, {"add_generation_prompt": False}),
    ("continue_final_message", True, {"continue_final_message": True}),
]


@pytest.mark.parametrize(("name", "value", "expected"), CHAT_OPTIONS)
def test_an_option_of_conversations_reaches_its_field(name: str, value: object, expected: dict) -> None:
    messages = [{"role": "user", "content": "u"}]
    assert sent(messages, **{name: value}) == {"prompt": {"chat": {"messages": messages, **expected}}}
    with pytest.raises(TypeError, match=f"{name} is for a conversation"):
        sent("text", **{name: value})


def test_a_choice_may_come_with_its_number() -> None:
    chat = sent([outrider.Message("user", "u")], parallel_tool_calls=False, tool_choice="auto")["prompt"]["chat"]
    assert chat["tool_choice"] == {"mode": "TOOL_CHOICE_MODE_AUTO", "parallel": False}


def test_messages_have_calls_and_answers_in_either_form() -> None:
    ours = [
        outrider.Message("user", ["a", "b"]),
        outrider.Message("assistant", tool_calls=[outrider.ToolCall("f", '{"x": 1}', "c1")], reasoning_content="hm"),
        outrider.Message("tool", "2", tool_call_id="c1", name="f"),
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    theirs = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "content": "2", "tool_call_id": "c1", "name": "f"},
    ]
    assert build_stream_request(ours, {}) == build_stream_request(theirs, {})


_NUMBERS = [  # of sampling: each has the name of its field
    (field.name, 0.5 if field.type == field.TYPE_DOUBLE else 3)
    for field in common_pb2.SamplingParameters.DESCRIPTOR.fields
    if field.type in {field.TYPE_DOUBLE, field.TYPE_INT32, field.TYPE_UINT32} and not field.is_repeated
]
OPTIONS = [
    *((name, value, {"sampling": {name: value}}) for name, value in _NUMBERS),
    ("temperature", 0, {"sampling": {"temperature": 0.0}}),
    ("message_deltas", True, {"output": {"message_deltas": True}}),
    ("suppress_token_ids", [7, 8], {"sampling": {"suppress_token_ids": [7, 8]}}),
    ("begin_suppress_token_ids", [7], {"sampling": {"begin_suppress_token_ids": [7]}}),
    ("bad_words_ids", [[7, 8], [9]], {"sampling": {"bad_words_ids": [{"ids": [7, 8]}, {"ids": [9]}]}}),
    ("dry_sequence_breakers", "\n", {"sampling": {"dry_sequence_breakers": ["\n"]}}),
    ("samplers", ["xtc", "top_k"], {"sampling": {"samplers": ["SAMPLER_XTC", "SAMPLER_TOP_K"]}}),
    (
        "logit_bias",
        {3: -1.5, 0: float("-inf")},
        {"sampling": {"logit_bias": [{"token_id": 3, "bias": -1.5}, {"bias": "-Infinity"}]}},
    ),
    ("seed", 2**64 - 1, {"sampling": {"seed": str(2**64 - 1)}}),
    ("banned_strings", "no", {"sampling": {"banned_strings": ["no"]}}),
    ("banned_strings", ["no", "nope"], {"sampling": {"banned_strings": ["no", "nope"]}}),
    ("allowed_token_ids", range(3), {"sampling": {"allowed_token_ids": [0, 1, 2]}}),
    ("stop", "end", {"stop": {"strings": ["end"]}}),
    ("stop", ["a", "b"], {"stop": {"strings": ["a", "b"]}}),
    ("stop_token_ids", [0, 7], {"stop": {"token_ids": [0, 7]}}),
    ("max_tokens", -1, {"stop": {"max_tokens": -1}}),
    ("min_tokens", 0, {"stop": {"min_tokens": 0}}),
    ("max_thinking_tokens", 0, {"stop": {"max_thinking_tokens": 0}}),
    ("ignore_eos", False, {"stop": {"ignore_eos": False}}),
    ("include_stop", True, {"stop": {"include_stop": True}}),
    ("time_limit", 1.5, {"stop": {"time_limit": "1.500s"}}),
    ("stop_on_loop", outrider.Loop(32, 4), {"stop": {"loop": {"window": 32, "repetitions": 4}}}),
    ("json_schema", '{"type": "object"}', {"grammar": {"json_schema": '{"type": "object"}'}}),
    ("json_schema", {"type": "object"}, {"grammar": {"json_schema": '{"type": "object"}'}}),
    ("regex", "", {"grammar": {"regex": ""}}),
    ("lark", "start: /a/", {"grammar": {"lark": "start: /a/"}}),
    ("choice", ["yes", "no"], {"grammar": {"choice": {"texts": ["yes", "no"]}}}),
    ("prefer_end", True, {"grammar": {"prefer_end": True}}),
    ("reasoning_marks", ("<a>", "</a>"), {"grammar": {"reasoning": {"start": "<a>", "end": "</a>"}}}),
    ("reasoning_marks", (), {"grammar": {"reasoning": {}}}),
    ("token_records", True, {"output": {"token_records": True}}),
    ("logprobs", True, {"output": {"logprobs": True}}),
    ("top_candidates", 5, {"output": {"top_candidates": 5}}),
    ("pass_reports", True, {"output": {"pass_reports": True}}),
    ("rank", True, {"output": {"rank": True}}),
    ("entropy", True, {"output": {"entropy": True}}),
    ("logits", True, {"output": {"logits": True}}),
    ("logits_token_ids", [0, 7], {"output": {"logits_token_ids": [0, 7]}}),
    ("prompt_logprobs", True, {"output": {"prompt_logprobs": True}}),
    ("show_special_tokens", True, {"output": {"show_special_tokens": True}}),
    ("speculation", "never", {"speculation": {"mode": "SPECULATION_MODE_NEVER"}}),
    ("speculation", "auto", {"speculation": {"mode": "SPECULATION_MODE_AUTO"}}),
    ("speculation", "always", {"speculation": {"mode": "SPECULATION_MODE_ALWAYS"}}),
    ("num_predictions", 4, {"speculation": {"num_predictions": 4}}),
    ("lookup", False, {"speculation": {"lookup": False}}),
    ("expected_token_ids", [5, 6], {"speculation": {"expected": {"ids": [5, 6]}}}),
    ("expected_text", "as before", {"speculation": {"expected_text": "as before"}}),
    ("prefix_cache", False, {"cache": {"prefix": False}}),
    ("cache_salt", "mine", {"cache": {"salt": "mine"}}),
    ("add_special_tokens", False, {"prompt": {"text": "p", "add_special_tokens": False}}),
    ("suffix", "s", {"prompt": {"text": "p", "infill": {"suffix": "s"}}}),
    ("suffix", "", {"prompt": {"text": "p", "infill": {}}}),
    (
        "infill_files",
        [("a.py", "x"), ("a.py", "y")],
        {"prompt": {"text": "p", "infill": {"files": [{"name": "a.py", "text": "x"}, {"name": "a.py", "text": "y"}]}}},
    ),
    ("heal", True, {"prompt": {"text": "p", "heal": True}}),
    ("model", "a", {"model": "a"}),
    ("lora", "b", {"lora": "b"}),
    ("guidance_scale", 2.5, {"guidance": {"scale": 2.5}}),
    ("negative_prompt", "dull", {"guidance": {"negative_prompt": {"text": "dull"}}}),
    ("negative_prompt", [5, 6], {"guidance": {"negative_prompt": {"token_ids": {"ids": [5, 6]}}}}),
    ("request_id", "", {"request_id": ""}),
    ("num_samples", 4, {"num_samples": 4}),
    ("best_of", 4, {"best_of": 4}),
    ("session", "mine", {"session": "mine"}),
    ("priority", -3, {"priority": -3}),
]


@pytest.mark.parametrize(("name", "value", "fields"), OPTIONS, ids=[f"{name}-{value}" for name, value, _ in OPTIONS])
def test_every_option_has_its_field(name: str, value: object, fields: dict) -> None:
    assert sent(**{name: value}) == {"prompt": {"text": "p"}} | fields


def test_every_option_is_tested_and_every_field_has_an_option() -> None:
    of_chats = {name for name, _, _ in CHAT_OPTIONS}
    assert {name for name, _, _ in OPTIONS} | of_chats == set(GenerateOptions.__annotations__)
    parts = (
        common_pb2.SamplingParameters,
        common_pb2.StopConditions,
        common_pb2.OutputOptions,
        common_pb2.SpeculationPolicy,
        common_pb2.CachePolicy,
        common_pb2.Grammar,
        common_pb2.Guidance,
        common_pb2.Infill,
    )
    fields = sum(len(part.DESCRIPTOR.fields) for part in parts)
    # Not prompt_token_ids, nor the tools of a continuation; nine options are not of these parts.
    assert fields - 2 == len(GenerateOptions.__annotations__) - len(of_chats) - 9


@pytest.mark.parametrize("prompt", [[5, 6], (5, 6), np.array([5, 6], dtype=np.int64), [np.int32(5), 6]], ids=repr)
def test_prompt_of_ids(prompt: outrider.Prompt) -> None:
    assert sent(prompt) == {"prompt": {"token_ids": {"ids": [5, 6]}}}


def test_prompt_of_messages() -> None:
    expected = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert sent([outrider.Message("system", "s"), expected[1]]) == {"prompt": {"chat": {"messages": expected}}}


def test_empty_prompts_reach_the_server() -> None:
    assert build_stream_request("", {}).prompt.WhichOneof("input") == "text"
    assert build_stream_request([], {}).prompt.WhichOneof("input") == "token_ids"
    assert build_tokenize_request([], None, {}, None).WhichOneof("input") == "chat"


def test_tokenize_and_detokenize() -> None:
    assert build_tokenize_request("x", False, {}, "a") == generation_pb2.TokenizeRequest(
        text="x", add_special_tokens=False, model="a"
    )
    assert not build_tokenize_request("x", None, {}, None).HasField("add_special_tokens")
    assert build_detokenize_request([1], True).show_special_tokens
    assert not build_detokenize_request([1], None).HasField("show_special_tokens")


@pytest.mark.parametrize(
    ("prompt", "options", "field"),
    [
        ([-1], {}, "prompt.token_ids.ids"),
        ("\ud800", {}, "prompt.text"),
        ("p", {"seed": -1}, "sampling.seed"),
        ("p", {"seed": 2**64}, "sampling.seed"),
        ("p", {"top_k": 2**31}, "sampling.top_k"),
        ("p", {"logit_bias": {-1: 0.0}}, "sampling.logit_bias"),
        ("p", {"stop_token_ids": [2**32]}, "stop.token_ids"),
        ("p", {"speculation": "sometimes"}, "speculation.mode"),
        ("p", {"time_limit": float("inf")}, "stop.time_limit"),
        ("p", {"time_limit": float("nan")}, "stop.time_limit"),
        ("p", {"time_limit": 1e300}, "stop.time_limit"),
        ("p", {"stop_on_loop": outrider.Loop(2**31, 2)}, "stop.loop"),
    ],
)
def test_values_that_cannot_be_sent(prompt: outrider.Prompt, options: dict, field: str) -> None:
    with pytest.raises(outrider.InvalidArgument) as caught:
        build_stream_request(prompt, options)
    assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("p", {"tempurature": 1}, "unknown option 'tempurature'; the options are .*temperature"),
        ("p", {"temperature": "hot"}, "sampling.temperature: "),
        ("p", {"top_k": 1.5}, "sampling.top_k: "),
        ("p", {"stop": [1]}, "stop.strings: "),
        ("p", {"time_limit": "a while"}, "stop.time_limit: "),
        ("p", {"stop_on_loop": (32, 4)}, r"stop.loop: a loop is an outrider.Loop, not \(32, 4\)"),
        ("p", {"stop_on_loop": outrider.Loop("32", 4)}, "stop.loop: "),
        ("p", {"heal": "yes"}, "prompt.heal: "),
        ("p", {"regex": "a", "choice": ["b"]}, "regex and choice are given; a text follows one grammar"),
        ("p", {"regex": 1}, "grammar.regex: "),
        ("p", {"choice": "yes"}, "grammar.choice.texts: a choice is among texts, not 'yes'"),
        ("p", {"choice": [1]}, "grammar.choice.texts: "),
        ("p", {"json_schema": {"type": {1}}}, "grammar.json_schema: "),
        (5, {}, "a prompt is text, token ids or messages, not 5"),
        ([1, "two"], {}, "prompt.token_ids.ids: "),
        ([{"role": "user"}], {}, "prompt.chat.messages: a message is"),
        ([{"role": "user", "content": 1}], {}, "prompt.chat.messages: "),
        ([outrider.Message("user", "u"), 1], {}, "prompt.chat.messages: a message is"),
    ],
)
def test_values_of_the_wrong_type(prompt: outrider.Prompt, options: dict, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build_stream_request(prompt, options)


def test_a_conversation_is_counted_as_it_is_asked() -> None:
    said, options = [{"role": "user", "content": "a"}], {"tools": [{"name": "now"}], "template_variables": {"a": 1}}
    counted = build_tokenize_request(said, None, options, None)  # type: ignore[arg-type]
    assert counted.chat == build_stream_request(said, options).prompt.chat  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tools is for a conversation"):
        build_tokenize_request("a", None, {"tools": []}, None)
    with pytest.raises(TypeError, match="unknown option 'heal'"):
        build_tokenize_request(said, None, {"heal": True}, None)  # type: ignore[typeddict-unknown-key]
