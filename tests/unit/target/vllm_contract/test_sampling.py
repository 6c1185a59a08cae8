"""Numbers of the contract are those of our own API."""

import math

import pytest
from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2
from services.engine.sampling_params import SAMPLING_NUMBERS
from services.service.validation import Violations
from services.target.vllm_contract.sampling import read_sampling


def read(**fields: object) -> common_pb2.SamplingParameters:
    return read_sampling(vllm_engine_pb2.SamplingParams(**fields), Violations())


@pytest.mark.parametrize("value", [0.9, 0.1, 1e-9, 0.333, 123456.7])
def test_a_float_is_read_as_the_decimal_that_was_written(value: float):
    """As a float32 in a double 0.9 would be 0.8999999761581421, which may cut off another token."""
    assert read(top_p=value).top_p == read(temperature=value).temperature == value


def test_nan_and_infinity_are_left_for_the_check():
    assert math.isnan(read(top_p=math.nan).top_p)
    assert read(temperature=math.inf).temperature == math.inf
    assert read(frequency_penalty=-math.inf).frequency_penalty == -math.inf


def test_all_numbers_are_set_even_if_left_out():
    """A checkpoint's recommendations apply to requests by our own API only."""
    unset = read()
    assert {field.name for field, _ in unset.ListFields()} == {number.name for number in SAMPLING_NUMBERS}
    assert (unset.typical_p, unset.xtc_probability) == (1.0, 0.0), "of which the contract knows nothing"
    assert (unset.temperature, unset.top_p, unset.repetition_penalty, unset.top_k) == (1.0, 1.0, 1.0, 0)
    assert read(temperature=0.0).temperature == 0.0, "which is greedy, and not left out"


@pytest.mark.parametrize(("seed", "ours"), [(0, 0), (2**31 - 1, 2**31 - 1), (-1, 2**64 - 1), (-(2**31), 2**64 - 2**31)])
def test_every_seed_of_32_bits_is_one_of_64(seed: int, ours: int):
    assert read(seed=seed).seed == ours
