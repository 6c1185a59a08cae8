"""Requests: from Python values to protobuf messages."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtoMessage

from outrider.chat.encode import Conversation, encode_messages, encode_tool_choice, encode_tools, encode_variables
from outrider.chat.message import Message
from outrider.chat.options import ChatOptions
from outrider.errors import InvalidArgument, Violation
from outrider.generate_options import GenerateOptions, Loop
from outrider.v1 import common_pb2, generation_pb2

Prompt = str | Sequence[int] | Conversation
"""Text, token ids, or the messages of a conversation."""


_FIELDS = {
    "model": "model",
    **{field.name: f"sampling.{field.name}" for field in common_pb2.SamplingParameters.DESCRIPTOR.fields},
    "stop": "stop.strings",
    "stop_token_ids": "stop.token_ids",
    "max_tokens": "stop.max_tokens",
    "min_tokens": "stop.min_tokens",
    "max_thinking_tokens": "stop.max_thinking_tokens",
    "ignore_eos": "stop.ignore_eos",
    "include_stop": "stop.include_stop",
    "time_limit": "stop.time_limit",
    "stop_on_loop": "stop.loop",
    "json_schema": "grammar.json_schema",
    "regex": "grammar.regex",
    "lark": "grammar.lark",
    "choice": "grammar.choice.texts",
    "prefer_end": "grammar.prefer_end",
    "reasoning_marks": "grammar.reasoning",
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
    "expected_token_ids": "speculation.expected.ids",
    "expected_text": "speculation.expected_text",
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
    "suffix": "prompt.infill.suffix",
    "infill_files": "prompt.infill.files",
    "heal": "prompt.heal",
    "request_id": "request_id",
    "priority": "priority",
    "lora": "lora",
    "guidance_scale": "guidance.scale",
    "negative_prompt": "guidance.negative_prompt",
    "num_samples": "num_samples",
    "best_of": "best_of",
    "session": "session",
}
_GRAMMARS = ("json_schema", "regex", "lark", "choice")
_SAMPLERS = {name.removeprefix("SAMPLER_").lower(): number for name, number in common_pb2.Sampler.items() if number}
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
    check_names(options, _FIELDS)
    if len(grammars := [name for name in _GRAMMARS if options.get(name) is not None]) > 1:
        raise TypeError(f"{' and '.join(grammars)} are given; a text follows one grammar")
    request = generation_pb2.StreamGenerateRequest()
    set_prompt(request, prompt)
    for name, value in options.items():
        if value is not None:
            if _FIELDS[name].startswith("prompt.chat.") and not request.prompt.HasField("chat"):
                raise TypeError(f"{name} is for a conversation, not for text or token ids")
            set_field(request, _FIELDS[name], value, _ENCODERS.get(name, _unchanged))
    return request


def build_tokenize_request(
    text: str | Conversation, add_special_tokens: bool | None, options: ChatOptions, model: str | None
) -> generation_pb2.TokenizeRequest:
    """The request to encode text or a conversation; raises TypeError for anything else."""
    request = generation_pb2.TokenizeRequest(add_special_tokens=add_special_tokens, model=model)
    if isinstance(text, str):
        set_field(request, "text", text)
    else:
        request.chat.SetInParent()
        set_field(request, "chat.messages", text, encode_messages)
    for name, value in options.items():
        if name not in ChatOptions.__annotations__:
            raise TypeError(
                f"unknown option {name!r}; the options are {', '.join(sorted(ChatOptions.__annotations__))}"
            )
        if value is not None:
            if not request.HasField("chat"):
                raise TypeError(f"{name} is for a conversation, not for text")
            set_field(request, _FIELDS[name].removeprefix("prompt."), value, _ENCODERS.get(name, _unchanged))
    return request


def build_detokenize_request(
    token_ids: Sequence[int], show_special_tokens: bool | None, model: str | None = None
) -> generation_pb2.DetokenizeRequest:
    """The request to decode token ids; raises as `build_stream_request`."""
    request = generation_pb2.DetokenizeRequest(show_special_tokens=show_special_tokens, model=model)
    set_field(request, "token_ids", token_ids)
    return request


def set_prompt(
    request: generation_pb2.StreamGenerateRequest | generation_pb2.ScoreRequest | generation_pb2.CreateSessionRequest,
    prompt: Prompt,
) -> None:
    """Set what a request begins with; raises TypeError for anything else."""
    if not hasattr(prompt, "__len__") or not hasattr(prompt, "__getitem__"):
        raise TypeError(f"a prompt is text, token ids or messages, not {prompt!r}")
    if isinstance(prompt, str):
        set_field(request, "prompt.text", prompt)
    elif len(prompt) > 0 and isinstance(prompt[0], Message | Mapping):
        set_field(request, "prompt.chat.messages", prompt, encode_messages)
    else:
        request.prompt.token_ids.SetInParent()
        set_field(request, "prompt.token_ids.ids", prompt)


def set_text(
    message: generation_pb2.TextToScore | generation_pb2.TextToEmbed | common_pb2.NegativePrompt,
    text: str | Sequence[int],
) -> None:
    """Set a text, or its token ids, in a request about it; raises as `build_stream_request`."""
    if isinstance(text, str):
        set_field(message, "text", text)
    else:
        message.token_ids.SetInParent()
        set_field(message, "token_ids.ids", text)


def check_names(options: Mapping[str, object], fields: Mapping[str, str]) -> None:
    """Raise TypeError for an option that is none of those that have a field."""
    if unknown := sorted(options.keys() - fields.keys()):
        raise TypeError(f"unknown option {unknown[0]!r}; the options are {', '.join(sorted(fields))}")


def set_options(
    message: ProtoMessage,
    options: Mapping[str, object],
    fields: Mapping[str, str],
    encoders: Mapping[str, Callable[[Any], object]] = MappingProxyType({}),
) -> None:
    """Set those options that are not None, each at its path in `fields`."""
    for name, value in options.items():
        if value is not None:
            set_field(message, fields[name], value, encoders.get(name, _unchanged))


def _unchanged(value: object) -> object:
    return value


def set_field(message: ProtoMessage, path: str, value: object, encode: Callable[[Any], object] = _unchanged) -> None:
    """Set the field at a path to the encoded value; raises TypeError, InvalidArgument with the path."""
    *parents, name = path.split(".")
    for parent in parents:
        message = getattr(message, parent)
    try:
        field = message.DESCRIPTOR.fields_by_name[name]
        if field.is_repeated:
            getattr(message, name).extend(encode(value))
        elif field.message_type is not None:
            getattr(message, name).MergeFrom(encode(value))
            getattr(message, name).SetInParent()  # an empty one is set, too
        else:
            setattr(message, name, encode(value))
    except TypeError as error:
        raise TypeError(f"{path}: {error}") from error
    except ValueError as error:
        raise InvalidArgument("the request is not valid", [Violation(path, str(error))]) from error


def _logit_bias(biases: Mapping[int, float]) -> list[common_pb2.LogitBias]:
    return [common_pb2.LogitBias(token_id=token_id, bias=bias) for token_id, bias in biases.items()]


def _samplers(names: Sequence[str]) -> Sequence[int]:
    if isinstance(names, str):
        raise TypeError(f"samplers are a list of names, not {names!r}")
    if others := [name for name in names if name not in _SAMPLERS]:
        raise ValueError(f"{others[0]!r} is none of {', '.join(_SAMPLERS)}")
    return [_SAMPLERS[name] for name in names]


def _files(files: Sequence[tuple[str, str]]) -> list[common_pb2.InfillFile]:
    return [common_pb2.InfillFile(name=name, text=text) for name, text in files]


def _words(words: Sequence[Sequence[int]]) -> list[common_pb2.TokenIds]:
    return [common_pb2.TokenIds(ids=word) for word in words]


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


def _negative_prompt(text: str | Sequence[int]) -> common_pb2.NegativePrompt:
    message = common_pb2.NegativePrompt()
    set_text(message, text)
    return message


def _marks(marks: Sequence[str]) -> common_pb2.Reasoning:
    if isinstance(marks, str) or len(marks) not in (0, 2):
        raise TypeError(f"reasoning_marks are a start and an end mark, or empty, not {marks!r}")
    return common_pb2.Reasoning(start=marks[0], end=marks[1]) if marks else common_pb2.Reasoning()


def _mode(mode: str) -> int:
    if mode not in _MODES:
        raise ValueError(f"{mode!r} is none of {', '.join(_MODES)}")
    return _MODES[mode]


_ENCODERS: dict[str, Callable[[Any], object]] = {
    "samplers": _samplers,
    "logit_bias": _logit_bias,
    "bad_words_ids": _words,
    "infill_files": _files,
    "dry_sequence_breakers": _strings,
    "banned_strings": _strings,
    "allowed_token_ids": _allowed,
    "negative_prompt": _negative_prompt,
    "stop": _strings,
    "time_limit": _duration,
    "stop_on_loop": _loop,
    "json_schema": _json,
    "choice": _texts,
    "reasoning_marks": _marks,
    "tools": encode_tools,
    "tool_choice": encode_tool_choice,
    "template_variables": encode_variables,
    "speculation": _mode,
}
