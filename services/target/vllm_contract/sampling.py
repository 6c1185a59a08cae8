"""Sampling: converts the contract's SamplingParams into parameters, stops and output options of our own."""

from typing import cast

from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2
from services.engine.range import COUNT, MAX_COUNT, Range
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingNumber, SamplingParams
from services.service.limits import LIMITS
from services.service.validation import Violations
from services.target.contracts.shortest_decimal import shortest_decimal

_FIELD = "sampling_params"
_SEEDS = 1 << 64
_OFF = SamplingParams(seed=0)


def read_sampling(message: vllm_engine_pb2.SamplingParams, found: Violations) -> common_pb2.SamplingParameters:
    """The sampling parameters; those that the request does not set are off, whatever the checkpoint recommends."""
    sampling = common_pb2.SamplingParameters(logit_bias=_read_biases(message, found))
    for number in SAMPLING_NUMBERS:
        setattr(sampling, number.name, _read_number(message, number, found))
    if message.HasField("seed"):
        sampling.seed = message.seed % _SEEDS  # a negative one as its two's complement
    return sampling


def read_stops(message: vllm_engine_pb2.SamplingParams, found: Violations) -> common_pb2.StopConditions:
    """The stop conditions of the request."""
    stops = common_pb2.StopConditions(
        strings=found.within(f"{_FIELD}.stop", message.stop, LIMITS.max_stop_strings),
        token_ids=found.within(f"{_FIELD}.stop_token_ids", message.stop_token_ids, LIMITS.max_stop_token_ids),
        min_tokens=_count("min_tokens", message.min_tokens, found),
        ignore_eos=message.ignore_eos,
        include_stop=message.include_stop_str_in_output,
    )
    if message.HasField("max_tokens"):
        stops.max_tokens = _count("max_tokens", message.max_tokens, found)
    return stops


def read_output(message: vllm_engine_pb2.SamplingParams, found: Violations) -> common_pb2.OutputOptions:
    """The output options; our one number of candidates is the larger one of the contract's two."""
    allowed = Range(minimum=0, maximum=LIMITS.max_top_candidates)
    for name in ("logprobs", "prompt_logprobs"):
        found.check_number(f"{_FIELD}.{name}", getattr(message, name), allowed)
    return common_pb2.OutputOptions(
        logprobs=message.HasField("logprobs"),
        top_candidates=max(message.logprobs, message.prompt_logprobs),
        prompt_logprobs=message.HasField("prompt_logprobs"),
    )


def _read_number(message: vllm_engine_pb2.SamplingParams, number: SamplingNumber, found: Violations) -> float:
    """A number that the contract may have under our name; without field presence, 0 counts as not set."""
    if number.name not in message.DESCRIPTOR.fields_by_name:
        return cast(float, getattr(_OFF, number.name))
    value = getattr(message, number.name)
    can_be_unset = message.DESCRIPTOR.fields_by_name[number.name].has_presence
    if not (message.HasField(number.name) if can_be_unset else value):
        return cast(float, getattr(_OFF, number.name))
    return shortest_decimal(value) if number.kind is float else _count(number.name, value, found)


def _count(name: str, value: int, found: Violations) -> int:
    found.check_number(f"{_FIELD}.{name}", value, COUNT)
    return min(value, MAX_COUNT)


def _read_biases(message: vllm_engine_pb2.SamplingParams, found: Violations) -> list[common_pb2.LogitBias]:
    field, biases = f"{_FIELD}.logit_bias", message.logit_bias
    found.check_length(field, [*biases], LIMITS.max_logit_biases)
    if len(biases) > LIMITS.max_logit_biases:
        return []
    if (least := min(biases, default=0)) < 0:
        found.add(field, f"names token {least}", "tokens from 0 on")
        return []
    return [common_pb2.LogitBias(token_id=token_id, bias=bias) for token_id, bias in sorted(biases.items())]
