"""Requests: from Python values to protobuf messages."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtoMessage

from outrider.chat.encode import Conversation, encode_messages, encode_tool_choice, encode_tools, encode_variables
from outrider.chat.message import Message
from outrider.chat.options import ChatOptions
from outrider.errors import InvalidArgument, Violation
from outrider.types import Loop
from outrider.v1 import common_pb2, generation_pb2

Prompt = str | Sequence[int] | Conversation
"""Text, token ids, or the messages of a conversation."""


class GenerateOptions(ChatOptions, total=False):
    """How to continue a prompt. What is left out, or None, takes the server's default.

    The meaning and the allowed values of each are those of the field of the same name in `outrider/v1/common.proto`.
    """

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    logit_bias: Mapping[int, float] | None
    """By token id; added behind the penalties."""
    seed: int | None
    banned_strings: str | Sequence[str] | None
    """Texts that the answer never has, whatever their case; what was taken back for them is in `Result.suppressed`."""
    allowed_token_ids: Sequence[int] | None
    """The only tokens that may be drawn, an end-of-sequence token among them if one is to end the answer."""
    stop: str | Sequence[str] | None
    """Texts that end the generation."""
    stop_token_ids: Sequence[int] | None
    max_tokens: int | None
    min_tokens: int | None
    ignore_eos: bool | None
    include_stop: bool | None
    """Whether what ended the generation is part of the text."""
    time_limit: float | None
    """In seconds, after which the server ends the generation with what there is, `FinishReason.TIME_LIMIT`. One that is
    resumed gets as much again; the call's `timeout` bounds it as a whole."""
    stop_on_loop: Loop | None
    """Ends a generation that repeats itself, with `FinishReason.LOOP`."""
    json_schema: str | Mapping[str, Any] | None
    """What the text must follow; one of these four at most."""
    regex: str | None
    """Of the whole text, in the syntax of Rust's regex crate."""
    lark: str | None
    """A context-free grammar in llguidance's dialect of Lark."""
    choice: Sequence[str] | None
    """Texts, one of which is written."""
    token_records: bool | None
    logprobs: bool | None
    top_candidates: int | None
    show_special_tokens: bool | None
    pass_reports: bool | None
    """One report per pass of the model, in `Chunk.pass_reports` and `Result.pass_reports`."""
    rank: bool | None
    entropy: bool | None
    logits: bool | None
    """The model's logits behind each token, in `Token.logits`."""
    logits_token_ids: Sequence[int] | None
    """Only these tokens' logits."""
    prompt_logprobs: bool | None
    """One record per token of the prompt, in `Result.prompt_records`."""
    speculation: Literal["never", "auto", "always"] | None
    num_predictions: int | None
    """Predictions to verify in each pass, with `speculation="always"`."""
    lookup: bool | None
    """Whether the text may be predicted from its own repetitions."""
    prefix_cache: bool | None
    """Whether keys and values of earlier requests may be used for this one, and its own for later ones."""
    cache_salt: str | None
    """Only requests with the same salt share them."""
    message_deltas: bool | None
    """Whether the answer is read as a message, in `Chunk.message_deltas` and `Result.message`."""
    add_special_tokens: bool | None
    heal: bool | None
    """Whether the prompt's last token may be drawn anew, as one that begins with the same bytes."""
    request_id: str | None
    priority: int | None
    """When its turn comes among the caller's own, while it waits: the highest first; below 0, behind everybody's."""
    num_samples: int | None
    """Answers to the one prompt. `Chunk.sample` says whose a chunk is; the result is that of sample 0, which has the
    others in `Result.further_samples`."""


_FIELDS = {
    **{field.name: f"sampling.{field.name}" for field in common_pb2.SamplingParameters.DESCRIPTOR.fields},
    "stop": "stop.strings",
    "stop_token_ids": "stop.token_ids",
    "max_tokens": "stop.max_tokens",
    "min_tokens": "stop.min_tokens",
    "ignore_eos": "stop.ignore_eos",
    "include_stop": "stop.include_stop",
    "time_limit": "stop.time_limit",
    "stop_on_loop": "stop.loop",
    "json_schema": "grammar.json_schema",
    "regex": "grammar.regex",
    "lark": "grammar.lark",
    "choice": "grammar.choice.texts",
    "token_records": "output.token_records",
    "logprobs": "output.logprobs",
    "top_candidates": "output.top_candidates",
    "show_special_tokens": "output.show_special_tokens",
    "pass_reports": "output.pass_reports",
    "rank": "output.rank",
    "entropy": "output.entropy",
    "logits": "output.logits",
    "logits_token_ids": "output.logits_token_ids",
    "prompt_logprobs": "output.prompt_logprobs",
    "speculation": "speculation.mode",
    "num_predictions": "speculation.num_predictions",
    "lookup": "speculation.lookup",
    "tools": "prompt.chat.tools",
    "tool_choice": "prompt.chat.tool_choice",
    "parallel_tool_calls": "prompt.chat.tool_choice.parallel",
    "template_variables": "prompt.chat.template_variables",
    "add_generation_prompt": "prompt.chat.add_generation_prompt",
    "continue_final_message": "prompt.chat.continue_final_message",
    "message_deltas": "output.message_deltas",
    "prefix_cache": "cache.prefix",
    "cache_salt": "cache.salt",
    "add_special_tokens": "prompt.add_special_tokens",
    "heal": "prompt.heal",
    "request_id": "request_id",
    "priority": "priority",
    "num_samples": "num_samples",
}
_GRAMMARS = ("json_schema", "regex", "lark", "choice")
_MODES = {
    "never": common_pb2.SPECULATION_MODE_NEVER,
    "auto": common_pb2.SPECULATION_MODE_AUTO,
    "always": common_pb2.SPECULATION_MODE_ALWAYS,
}


def build_stream_request(prompt: Prompt, options: GenerateOptions) -> generation_pb2.StreamGenerateRequest:
    """The request for a stream.

    Raises TypeError for an unknown option, a value of the wrong type, more than one grammar, or an option of
    conversations without one, and InvalidArgument for a value that the protocol cannot carry; all else is left to the
    server.
    """
    if unknown := sorted(options.keys() - _FIELDS.keys()):
        raise TypeError(f"unknown option {unknown[0]!r}; the options are {', '.join(sorted(_FIELDS))}")
    if len(grammars := [name for name in _GRAMMARS if options.get(name) is not None]) > 1:
        raise TypeError(f"{' and '.join(grammars)} are given; a text follows one grammar")
    request = generation_pb2.StreamGenerateRequest()
    _set_prompt(request, prompt)
    for name, value in options.items():
        if value is not None:
            if _FIELDS[name].startswith("prompt.chat.") and not request.prompt.HasField("chat"):
                raise TypeError(f"{name} is for a conversation, not for text or token ids")
            _set(request, _FIELDS[name], value, _ENCODERS.get(name, _unchanged))
    return request


def build_tokenize_request(
    text: str | Conversation, add_special_tokens: bool | None, options: ChatOptions | None = None
) -> generation_pb2.TokenizeRequest:
    """The request to encode text or a conversation; raises TypeError for anything else."""
    request = generation_pb2.TokenizeRequest(add_special_tokens=add_special_tokens)
    if isinstance(text, str):
        _set(request, "text", text)
    else:
        request.chat.SetInParent()
        _set(request, "chat.messages", text, encode_messages)
    for name, value in (options or {}).items():
        if name not in ChatOptions.__annotations__:
            raise TypeError(
                f"unknown option {name!r}; the options are {', '.join(sorted(ChatOptions.__annotations__))}"
            )
        if value is not None:
            if not request.HasField("chat"):
                raise TypeError(f"{name} is for a conversation, not for text")
            _set(request, _FIELDS[name].removeprefix("prompt."), value, _ENCODERS.get(name, _unchanged))
    return request


def build_detokenize_request(
    token_ids: Sequence[int], show_special_tokens: bool | None
) -> generation_pb2.DetokenizeRequest:
    """The request to decode token ids; raises as `build_stream_request`."""
    request = generation_pb2.DetokenizeRequest(show_special_tokens=show_special_tokens)
    _set(request, "token_ids", token_ids)
    return request


def _set_prompt(request: generation_pb2.StreamGenerateRequest, prompt: Prompt) -> None:
    if not hasattr(prompt, "__len__") or not hasattr(prompt, "__getitem__"):
        raise TypeError(f"a prompt is text, token ids or messages, not {prompt!r}")
    if isinstance(prompt, str):
        _set(request, "prompt.text", prompt)
    elif len(prompt) > 0 and isinstance(prompt[0], Message | Mapping):
        _set(request, "prompt.chat.messages", prompt, encode_messages)
    else:
        request.prompt.token_ids.SetInParent()
        _set(request, "prompt.token_ids.ids", prompt)


def _unchanged(value: object) -> object:
    return value


def _set(message: ProtoMessage, path: str, value: object, encode: Callable[[Any], object] = _unchanged) -> None:
    """Set the field at a path to the encoded value, and name the path where that fails."""
    *parents, name = path.split(".")
    for parent in parents:
        message = getattr(message, parent)
    try:
        field = message.DESCRIPTOR.fields_by_name[name]
        if field.is_repeated:
            getattr(message, name).extend(encode(value))
        elif field.message_type is not None:
            getattr(message, name).MergeFrom(encode(value))
        else:
            setattr(message, name, encode(value))
    except TypeError as error:
        raise TypeError(f"{path}: {error}") from error
    except ValueError as error:
        raise InvalidArgument("the request is not valid", [Violation(path, str(error))]) from error


def _logit_bias(biases: Mapping[int, float]) -> list[common_pb2.LogitBias]:
    return [common_pb2.LogitBias(token_id=token_id, bias=bias) for token_id, bias in biases.items()]


def _allowed(token_ids: Sequence[int]) -> Sequence[int]:
    if len(token_ids) == 0:
        raise ValueError("names no token; leave it out to allow all of them")
    return token_ids


def _strings(strings: str | Sequence[str]) -> Sequence[str]:
    return [strings] if isinstance(strings, str) else strings


def _json(schema: str | Mapping[str, Any]) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def _texts(choice: Sequence[str]) -> Sequence[str]:
    if isinstance(choice, str):
        raise TypeError(f"a choice is among texts, not {choice!r}")
    return choice


def _duration(seconds: float) -> Duration:
    nanoseconds = seconds * 1e9
    if not math.isfinite(nanoseconds):
        raise ValueError(f"{seconds} seconds are no time to wait")
    duration = Duration()
    duration.FromNanoseconds(round(nanoseconds))
    return duration


def _loop(loop: Loop) -> common_pb2.Loop:
    if not isinstance(loop, Loop):
        raise TypeError(f"a loop is an outrider.Loop, not {loop!r}")
    return common_pb2.Loop(window=loop.window, repetitions=loop.repetitions)


def _mode(mode: str) -> int:
    if mode not in _MODES:
        raise ValueError(f"{mode!r} is none of {', '.join(_MODES)}")
    return _MODES[mode]


_ENCODERS: dict[str, Callable[[Any], object]] = {
    "logit_bias": _logit_bias,
    "banned_strings": _strings,
    "allowed_token_ids": _allowed,
    "stop": _strings,
    "time_limit": _duration,
    "stop_on_loop": _loop,
    "json_schema": _json,
    "choice": _texts,
    "tools": encode_tools,
    "tool_choice": encode_tool_choice,
    "template_variables": encode_variables,
    "speculation": _mode,
}
