"""Requests of the contract, those of our own translated to it, and what came of them."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from outrider.v1 import generation_pb2
from services.target.openengine.contract import CONTROL, INFERENCE
from services.target.openengine.v1 import openengine_pb2
from tests.harness.servers.server import RunningTarget

PROMPT = [5, 77, 130, 21, 300, 42, 9]
_SAMPLING = {*openengine_pb2.SamplingParams.DESCRIPTOR.fields_by_name}


class Stub:
    """Calls the methods of a service, which is known by its description alone."""

    def __init__(self, channel: grpc.Channel, service: ServiceDescriptor) -> None:
        for method in service.methods:
            new = channel.unary_stream if method.server_streaming else channel.unary_unary
            call = new(
                f"/{service.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)


def inference(target: RunningTarget) -> Any:
    """What calls the methods of Inference."""
    return Stub(target.channel, INFERENCE)


def control(target: RunningTarget) -> Any:
    """What calls the methods of Control."""
    return Stub(target.channel, CONTROL)


def contract_request(prompt: str | list[int] = PROMPT, **fields: Any) -> openengine_pb2.GenerateRequest:
    """A request for 24 seeded tokens, changed by `fields`: whole sub-messages by their names."""
    defaults = {"sampling": {"seed": 5}, "stopping": {"max_tokens": 24, "ignore_eos": True}}
    request = openengine_pb2.GenerateRequest(**{**defaults, **fields})
    if isinstance(prompt, str):
        request.prompt = prompt
    else:
        request.token_ids.ids[:] = prompt
    return request


def translated(ours: generation_pb2.StreamGenerateRequest) -> openengine_pb2.GenerateRequest:
    """The same request: by the contract's fields as far as it has them, the rest as `extra`."""
    rest: Any = generation_pb2.StreamGenerateRequest()  # fields are known by their names here
    rest.CopyFrom(ours)
    request = openengine_pb2.GenerateRequest(request_id=ours.request_id, model=ours.model, lora_name=ours.lora)
    match ours.prompt.WhichOneof("input"):
        case "text":
            request.prompt = ours.prompt.text
            rest.prompt.ClearField("text")
        case "token_ids":
            request.token_ids.ids[:] = ours.prompt.token_ids.ids
            rest.prompt.ClearField("token_ids")
    for each, value in ours.sampling.ListFields():
        if each.name in _SAMPLING:
            setattr(request.sampling, each.name, value)
            rest.sampling.ClearField(each.name)
    if ours.HasField("num_samples"):
        request.sampling.num_sequences = ours.num_samples
    _translate_stops(ours, request, rest)
    _translate_output(ours, request)
    match ours.grammar.WhichOneof("kind"):
        case "lark":
            request.guided.ebnf_grammar = ours.grammar.lark
        case "choice":
            request.guided.choice.choices[:] = ours.grammar.choice.texts
        case str(kind):
            setattr(request.guided, kind, getattr(ours.grammar, kind))
    if ours.cache.HasField("salt"):
        request.kv.cache_salt = ours.cache.salt
    if ours.cache.HasField("prefix"):
        request.kv.bypass_prefix_cache = not ours.cache.prefix
    for name in ("request_id", "model", "lora", "num_samples", "output", "grammar", "cache"):
        rest.ClearField(name)
    request.extra.update({"outrider": MessageToDict(rest)})
    return request


def _translate_stops(ours: Any, request: openengine_pb2.GenerateRequest, rest: Any) -> None:
    for name, theirs in (
        ("max_tokens", "max_tokens"),
        ("min_tokens", "min_tokens"),
        ("ignore_eos", "ignore_eos"),
        ("include_stop", "include_stop_in_output"),
    ):
        if ours.stop.HasField(name):
            setattr(request.stopping, theirs, getattr(ours.stop, name))
            rest.stop.ClearField(name)
    for text in ours.stop.strings:
        request.stopping.conditions.add(stop_text=text)
    for token_id in ours.stop.token_ids:
        request.stopping.conditions.add(stop_token_id=token_id)
    rest.stop.ClearField("strings")
    rest.stop.ClearField("token_ids")


def _translate_output(ours: generation_pb2.StreamGenerateRequest, request: openengine_pb2.GenerateRequest) -> None:
    if ours.output.logprobs or ours.output.top_candidates:
        request.response.return_output_logprobs = True
        request.response.output_candidates.top_n = ours.output.top_candidates
    if ours.output.prompt_logprobs:
        request.response.return_prompt_logprobs = True
        request.response.prompt_candidates.top_n = ours.output.top_candidates


@dataclass
class Answer:
    """One of the answers to a request."""

    tokens: list[openengine_pb2.TokenInfo] = field(default_factory=list)
    text: str = ""
    ends: list[openengine_pb2.GenerationFinished] = field(default_factory=list)

    @property
    def end(self) -> openengine_pb2.GenerationFinished:
        """Its only end."""
        (end,) = self.ends
        return end

    @property
    def token_ids(self) -> list[int]:
        return [token.token_id for token in self.tokens]

    @property
    def reason(self) -> str:
        return openengine_pb2.FinishReason.Name(self.end.reason).removeprefix("FINISH_REASON_")


@dataclass
class Asked:
    """What came of a request: events in the order that the contract demands."""

    answers: defaultdict[int, Answer] = field(default_factory=lambda: defaultdict(Answer))
    prompts: list[openengine_pb2.PromptOutput] = field(default_factory=list)
    errors: list[openengine_pb2.EngineError] = field(default_factory=list)
    usages: list[openengine_pb2.Usage] = field(default_factory=list)
    request_ids: set[str] = field(default_factory=set)

    def take(self, response: openengine_pb2.GenerateResponse) -> None:
        """Add an event, which may not come after the last one, nor after the end of its answer."""
        assert not self.errors
        assert not self.usages
        self.request_ids.add(response.request_id)
        if response.HasField("usage"):
            self.usages.append(response.usage)
        event = getattr(response, response.WhichOneof("event") or "")
        match response.WhichOneof("event"):
            case "prompt":
                assert not self.prompts
                assert not self.answers[0].tokens
                self.prompts.append(event)
            case "token":
                assert event.HasField("output_index")
                assert not self.answers[event.output_index].ends
                self.answers[event.output_index].tokens += event.tokens
                self.answers[event.output_index].text += event.text
            case "finished":
                assert event.HasField("output_index")
                assert not self.answers[event.output_index].ends
                self.answers[event.output_index].ends.append(event)
            case "error":
                self.errors.append(event)

    @property
    def usage(self) -> openengine_pb2.Usage:
        """The only usage, of the last event."""
        (usage,) = self.usages
        return usage

    @property
    def answer(self) -> Answer:
        """The only answer."""
        assert [*self.answers] == [0]
        return self.answers[0]


def taken(call: Any) -> Asked:
    """What comes of a call to its end."""
    asked = Asked()
    for response in call:
        asked.take(response)
    return asked


def ask(
    target: RunningTarget, request: openengine_pb2.GenerateRequest, timeout: float = 60, metadata: Any = None
) -> Asked:
    """What comes of a request."""
    return taken(inference(target).Generate(request, timeout=timeout, metadata=metadata))
