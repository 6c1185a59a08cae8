"""Requests: converts the contract's GenerateRequest for the generation service; unsupported fields are errors."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from outrider.v1 import common_pb2, generation_pb2
from services.engine.range import COUNT, MAX_COUNT, Range
from services.service.errors import InvalidRequestError
from services.service.limits import LIMITS
from services.service.validation import Violations
from services.target.contracts.field_names import ContractRequestError, check_fields, in_contract
from services.target.contracts.shortest_decimal import shortest_decimal
from services.target.models.served_model import ServedModel
from services.target.openengine.v1 import openengine_pb2

_OWN = "extra.outrider"
_OWN_FIELDS = ("prompt", "sampling", "stop", "speculation", "continue_from", "session", "guidance")
_NAMES: Mapping[str, str] = {
    "prompt": "input",
    "prompt.text": "prompt",
    "prompt.token_ids.ids": "token_ids.ids",
    "stop": "stopping",
    "stop.strings": "stopping.conditions",
    "stop.token_ids": "stopping.conditions",
    "stop.include_stop": "stopping.include_stop_in_output",
    "grammar": "guided",
    "grammar.lark": "guided.ebnf_grammar",
    "grammar.choice.texts": "guided.choice.choices",
    "num_samples": "sampling.num_sequences",
    "cache.salt": "kv.cache_salt",
    "lora": "lora_name",
    "speculation": f"{_OWN}.speculation",
    "continue_from": f"{_OWN}.continue_from",
    "session": f"{_OWN}.session",
    "guidance": f"{_OWN}.guidance",
}
_WITHOUT_PLACES = ["stopping.conditions"]  # texts and tokens are one list
_KNOWN: Mapping[str, set[str]] = {
    "": {*openengine_pb2.GenerateRequest.DESCRIPTOR.fields_by_name} - {"media"},
    "sampling": {*openengine_pb2.SamplingParams.DESCRIPTOR.fields_by_name},
    "stopping": {*openengine_pb2.StoppingOptions.DESCRIPTOR.fields_by_name},
    "response": {*openengine_pb2.ResponseOptions.DESCRIPTOR.fields_by_name},
    "kv": {"bypass_prefix_cache", "cache_salt"},
    "guided": {*openengine_pb2.GuidedDecoding.DESCRIPTOR.fields_by_name} - {"structural_tag"},
    "token_ids": {"ids"},
}
_SELECTIONS = {*openengine_pb2.CandidateTokenSelection.DESCRIPTOR.fields_by_name}
_ANY_OBJECT = '{"type": "object"}'
_BACKEND = "llguidance"


def in_words(error: InvalidRequestError) -> ContractRequestError:
    """The same violations under the contract's names."""
    return in_contract(error, _NAMES, _WITHOUT_PLACES)


def read_request(
    message: openengine_pb2.GenerateRequest, model: ServedModel, *, priority: int, found: Violations
) -> generation_pb2.StreamGenerateRequest:
    """The request for the generation service, which checks the rest; raises ContractRequestError, also if anything was
    found before.
    """
    for name, known in _KNOWN.items():
        if not name or message.HasField(name):  # type: ignore[arg-type]
            check_fields(getattr(message, name) if name else message, f"{name}." if name else "", known, found)
    request = generation_pb2.StreamGenerateRequest(
        prompt=_read_prompt(message, model, found),
        sampling=_read_sampling(message.sampling),
        stop=_read_stops(message.stopping, found),
        output=_read_output(message.response, found),
        grammar=_read_guide(message.guided, found),
        cache=_read_cache(message.kv),
        num_samples=_read_num_samples(message.sampling, model, found),
        priority=priority,
        request_id=message.request_id or None,
        model=message.model or None,
        lora=message.lora_name or None,
    )
    if "outrider" in message.extra.fields:
        request.MergeFrom(_read_own(message, found))
    try:
        found.raise_if_any()
    except InvalidRequestError as error:
        raise ContractRequestError(error.violations) from error
    return request


def _read_prompt(
    message: openengine_pb2.GenerateRequest, model: ServedModel, found: Violations
) -> common_pb2.Prompt | None:
    match message.WhichOneof("input"):
        case "prompt":
            return common_pb2.Prompt(text=message.prompt)
        case "token_ids":
            ids, most = message.token_ids.ids, model.context_length - 1
            if len(ids) > most:  # before they are walked
                found.add(
                    "token_ids.ids", f"is {len(ids)} tokens long", f"at most {most}, so that there is room for one more"
                )
                return None
            return common_pb2.Prompt(token_ids=common_pb2.TokenIds(ids=ids))
    found.add("input", "is not set", "prompt or token_ids")
    return None


def _read_sampling(message: openengine_pb2.SamplingParams) -> common_pb2.SamplingParameters:
    """The sampling parameters; those that the request does not set are as in requests of our own."""
    sampling = common_pb2.SamplingParameters()
    for field, value in message.ListFields():
        if field.name == "top_k":
            sampling.top_k = max(0, value) if value >= -1 else value
        elif field.name != "num_sequences":
            setattr(sampling, field.name, shortest_decimal(value) if isinstance(value, float) else value)
    return sampling


def _read_num_samples(message: openengine_pb2.SamplingParams, model: ServedModel, found: Violations) -> int:
    wanted = message.num_sequences if message.HasField("num_sequences") else 1
    found.check_number("sampling.num_sequences", wanted, Range(minimum=1, maximum=model.max_samples))
    return max(1, min(wanted, model.max_samples))


def _read_stops(message: openengine_pb2.StoppingOptions, found: Violations) -> common_pb2.StopConditions:
    stops = common_pb2.StopConditions()
    for field, value in message.ListFields():
        match field.name:
            case "max_tokens" | "min_tokens":
                found.check_number(f"stopping.{field.name}", value, COUNT)
                setattr(stops, field.name, min(value, MAX_COUNT))
            case "ignore_eos":
                stops.ignore_eos = value
            case "include_stop_in_output":
                stops.include_stop = value
    most = LIMITS.max_stop_strings + LIMITS.max_stop_token_ids
    for place, condition in enumerate(found.within("stopping.conditions", message.conditions, most)):
        match condition.WhichOneof("condition"):
            case "stop_text":
                stops.strings.append(condition.stop_text)
            case "stop_token_id":
                stops.token_ids.append(condition.stop_token_id)
            case _:
                found.add(f"stopping.conditions[{place}]", "is not set", "stop_text or stop_token_id")
    return stops


def _read_output(message: openengine_pb2.ResponseOptions, found: Violations) -> common_pb2.OutputOptions:
    """The output options; our one number of candidates is the larger one of the contract's two."""
    counts = [
        _read_candidates(f"response.{name}", getattr(message, name), found)
        for name in ("prompt_candidates", "output_candidates")
    ]
    has_own = message.return_output_logprobs or message.HasField("output_candidates")
    has_prompt = message.return_prompt_logprobs or message.HasField("prompt_candidates")
    if message.HasField("prompt_logprob_start") and not has_prompt:
        found.add("response.prompt_logprob_start", "is set", "only with return_prompt_logprobs")
    return common_pb2.OutputOptions(
        logprobs=has_own, rank=has_own or has_prompt, top_candidates=max(counts), prompt_logprobs=has_prompt
    )


def _read_candidates(field: str, message: openengine_pb2.CandidateTokenSelection, found: Violations) -> int:
    check_fields(message, f"{field}.", _SELECTIONS, found)
    if (kind := message.WhichOneof("selection")) in ("token_ids", "all"):
        found.add(f"{field}.{kind}", "is set", f"top_n, at most {LIMITS.max_top_candidates}")
        return 0
    found.check_number(f"{field}.top_n", message.top_n, Range(minimum=0, maximum=LIMITS.max_top_candidates))
    return min(message.top_n, LIMITS.max_top_candidates)


def _read_cache(message: openengine_pb2.KvOptions) -> common_pb2.CachePolicy:
    policy = common_pb2.CachePolicy(salt=message.cache_salt if message.HasField("cache_salt") else None)
    if message.bypass_prefix_cache:
        policy.prefix = False
    return policy


def _read_guide(message: openengine_pb2.GuidedDecoding, found: Violations) -> common_pb2.Grammar | None:
    """The grammar of a guide; `ebnf_grammar` is converted later."""
    if message.backend not in ("", _BACKEND):
        found.add("guided.backend", f"is {message.backend[:64]!r}", f"{_BACKEND!r}, or empty")
    match message.WhichOneof("guide"):
        case "json_schema":
            return common_pb2.Grammar(json_schema=message.json_schema)
        case "regex":
            return common_pb2.Grammar(regex=message.regex)
        case "ebnf_grammar":
            return common_pb2.Grammar(lark=message.ebnf_grammar)
        case "choice":
            return common_pb2.Grammar(choice=common_pb2.Choice(texts=message.choice.choices))
        case "json_object":
            return common_pb2.Grammar(json_schema=_ANY_OBJECT)
    return None


def _read_own(message: openengine_pb2.GenerateRequest, found: Violations) -> generation_pb2.StreamGenerateRequest:
    """The options that the contract has no fields for, as fields of a StreamGenerateRequest in JSON."""
    read = generation_pb2.StreamGenerateRequest()
    try:
        own: Any = MessageToDict(message.extra.fields["outrider"])
        ParseDict(own, read)
    except (ParseError, TypeError, AttributeError, ValueError) as error:
        found.add(_OWN, f"is not understood: {str(error)[:200]}", "a StreamGenerateRequest in protobuf's JSON")
        return generation_pb2.StreamGenerateRequest()
    for field, _ in read.ListFields():
        if field.name not in _OWN_FIELDS:
            found.add(f"{_OWN}.{field.name}", "is set", ", ".join(_OWN_FIELDS))
    if kind := read.prompt.WhichOneof("input"):
        found.add(
            f"{_OWN}.prompt.{kind}", "is set", "add_special_tokens, heal and infill: the prompt itself is in input"
        )
    return read
