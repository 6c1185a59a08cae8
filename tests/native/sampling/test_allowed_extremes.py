"""Parameters at the ends of their allowed ranges: each row of finite logits still has a token."""

import random
from typing import Any

import numpy as np
import pytest

from services.engine.decoder.native import SamplingState
from services.engine.range import BIAS, Range
from services.engine.request import OutputOptions
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingNumber, SamplingParams
from services.engine.sampling_state import new_sampling_state
from tests.native.harness.sampling_reference import random_logits, sample

VOCAB_SIZE = 64
LOGITS = np.concatenate([random_logits(4, VOCAB_SIZE, scale=scale) for scale in (0.0, 3.0, 1e6)])
BIASES = {3: BIAS.minimum, 4: BIAS.maximum, 5: BIAS.maximum, 6: -float("inf")}
TEMPERATURES = (0.0, 1e-5, 0.7, 1.0)
FEEDBACK = ("mirostat_mode", "adaptive_target")  # not both at once


def ends(allowed: Range) -> tuple[float, float]:
    return (5e-324 if allowed.excludes_minimum else allowed.minimum, allowed.maximum)


def state(prompt: list[int], **fields: Any) -> SamplingState:
    params = SamplingParams(seed=7, **fields)
    return new_sampling_state(params, prompt=prompt, min_tokens=0, masked_ids=(), output=OutputOptions(logprobs=True))


def assert_drawn(fields: dict[str, Any]) -> None:
    prompt = [1, 2, 3, 4, 5, 6] * 12 + [*range(VOCAB_SIZE - 1)]  # the last id is new, so that no rule forbids it
    samples = sample(LOGITS, [state(prompt, **fields) for _ in LOGITS])
    assert not samples.status.any(), fields
    assert not np.isnan(samples.logprobs).any(), fields


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("number", SAMPLING_NUMBERS, ids=lambda number: number.name)
def test_one_parameter_at_its_limits_leaves_a_token(number: SamplingNumber, temperature: float) -> None:
    for value in ends(number.allowed):
        for biases in ({}, BIASES):
            fields = {"temperature": temperature, "logit_bias": biases, number.name: number.kind(value)}
            assert_drawn(fields)


def test_many_parameters_at_their_limits_leave_a_token() -> None:
    dice = random.Random(5)
    for _ in range(300):
        numbers = dice.sample(SAMPLING_NUMBERS, dice.randint(2, len(SAMPLING_NUMBERS)))
        fields: dict[str, Any] = {number.name: number.kind(dice.choice(ends(number.allowed))) for number in numbers}
        if all(name in fields for name in FEEDBACK):
            del fields[dice.choice(FEEDBACK)]
        biases = {token_id: dice.choice([*BIASES.values()]) for token_id in dice.sample(range(VOCAB_SIZE - 1), 9)}
        assert_drawn({"temperature": dice.choice(TEMPERATURES), "logit_bias": biases, **fields})
