"""The numbers of SamplingParams mean the same in the proto, in the client and in the native module."""

import re
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor

from outrider.generate_options import GenerateOptions
from outrider.v1 import common_pb2
from services.draft_protocol.conversions import read_sampling, write_sampling
from services.engine.range import COUNT, FLOAT32_MAX
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingNumber, SamplingParams
from services.engine.sampling_state import new_sampling_state
from services.service.validation import is_within

PROTO = Path(__file__).parents[3] / "protos/outrider/v1/common.proto"
FIELDS = {field.name: field for field in common_pb2.SamplingParameters.DESCRIPTOR.fields}
BY_NAME = pytest.mark.parametrize("number", SAMPLING_NUMBERS, ids=lambda number: number.name)


def check(**numbers: float) -> None:
    """Raises ValueError where nothing can be drawn with such numbers."""
    new_sampling_state(SamplingParams(seed=0, **numbers), prompt=(), min_tokens=0, masked_ids=())


def test_the_sampling_numbers_are_those_of_the_proto() -> None:
    types = {FieldDescriptor.CPPTYPE_DOUBLE: float, FieldDescriptor.CPPTYPE_INT32: int}
    numbers = {name: types[field.cpp_type] for name, field in FIELDS.items() if field.cpp_type in types}
    assert numbers == {number.name: number.kind for number in SAMPLING_NUMBERS}


@BY_NAME
def test_the_proto_states_the_range_and_the_default(number: SamplingNumber) -> None:
    comment = re.search(rf"((?: *//.*\n)+) *optional \w+ {number.name} = ", PROTO.read_text())[1]
    words = " ".join(re.sub(r"^ *// ", "", line) for line in comment.splitlines())
    low = f"{'above' if number.allowed.excludes_minimum else 'at least'} {number.allowed.minimum}"
    bracket = "(" if number.allowed.excludes_minimum else "["
    if number.allowed is COUNT:
        said = low.capitalize()
    elif number.allowed.maximum == FLOAT32_MAX:
        said = f"Finite, {low}"
    else:
        said = f"In {bracket}{number.allowed.minimum}, {number.allowed.maximum}]"
    assert f"{said}. " in f"{words} "
    assert f"Default: {getattr(SamplingParams(seed=0), number.name):g}." in words


@BY_NAME
def test_the_client_has_an_option(number: SamplingNumber) -> None:
    assert GenerateOptions.__annotations__[number.name] == number.kind | None


@BY_NAME
def test_the_native_module_takes_all_that_may_be_asked(number: SamplingNumber) -> None:
    allowed = number.allowed
    above = float(np.nextafter(np.float32(allowed.minimum), np.float32(1)))
    least = above if allowed.excludes_minimum else allowed.minimum
    for value in (least, allowed.maximum):
        assert is_within(value, allowed)
        check(**{number.name: number.kind(value)})


@BY_NAME
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_the_native_module_refuses_numbers_out_of_range(number: SamplingNumber, value: float) -> None:
    if number.kind is float:
        assert not is_within(value, number.allowed)
        with pytest.raises(ValueError, match=f"^{number.name}: is "):
            check(**{number.name: value})


def test_a_draft_gets_the_sampling_numbers_unchanged() -> None:
    changed = {number.name: number.kind(0.5 + index) for index, number in enumerate(SAMPLING_NUMBERS)}
    params = SamplingParams(seed=7, logit_bias={3: -1.5}, **changed)
    assert read_sampling(write_sampling(params)) == params
