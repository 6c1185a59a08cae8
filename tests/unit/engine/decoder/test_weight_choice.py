"""The fastest weight format: by the device, the size of the model, and its widths."""

from dataclasses import replace

import pytest

from services.engine.checkpoint.model_config import Experts
from services.engine.decoder.weight_choice import choose_weights
from tests.native.harness.random_models import PLAIN

SMALL = replace(PLAIN, hidden_size=64, intermediate_size=96, num_heads=4, head_dim=16)
LARGE = replace(SMALL, vocab_size=200_000)


@pytest.mark.parametrize("on_cpu", [True, False])
def test_a_large_model_is_held_in_the_fewest_bytes(on_cpu: bool) -> None:
    assert choose_weights(LARGE, on_cpu=on_cpu).weights == "int4"


@pytest.mark.parametrize("widths", [{"hidden_size": 80}, {"intermediate_size": 100}, {"num_heads": 5}])
def test_widths_that_are_no_whole_groups_leave_int8(widths: dict[str, int]) -> None:
    choice = choose_weights(replace(LARGE, **widths), on_cpu=True)
    assert choice.weights == "int8"
    assert "80 inputs" in choice.reason or "100 inputs" in choice.reason


def test_experts_of_no_whole_groups_leave_int8() -> None:
    experts = Experts(count=8, per_token=2, size=100, are_normalised=True)
    choice = choose_weights(replace(LARGE, intermediate_size=0, experts=experts), on_cpu=True)
    assert choice.weights == "int8"
    assert "100 inputs" in choice.reason
    whole = replace(LARGE, intermediate_size=0, experts=replace(experts, size=96))
    assert choose_weights(whole, on_cpu=True).weights == "int4"


def test_a_model_that_the_caches_hold_is_not_rounded() -> None:
    choice = choose_weights(SMALL, on_cpu=True)
    assert choice.weights == "bf16"
    assert "parameters stay in the caches" in choice.reason


def test_integers_of_the_files_are_not_rounded_again() -> None:
    assert choose_weights(LARGE, on_cpu=True, is_grouped=True).weights == "stored"
    assert choose_weights(LARGE, on_cpu=False, is_grouped=True).weights == "int4"
