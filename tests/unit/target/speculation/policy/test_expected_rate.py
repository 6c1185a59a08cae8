"""The equation: of all lengths it finds those with the most tokens per second, as docs/inside/speculation.md has it."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services.target.speculation.policy.expected_rate import StepEstimate, most_tokens_per_second
from services.target.speculation.policy.speculation_plan import StepSize
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes

COUNT, MOST = 3, 4
RATES = np.array([[0.9], [0.7], [0.3]])


def make_step(*, wait: float = 0.01, each: float = 0.0, row: float = 0.001, **changes: Any) -> StepEstimate:
    """Three streams, one predicted well and one badly; a pass takes so much longer for each row."""
    step = StepEstimate(
        chances=RATES ** np.arange(1, MOST + 1),
        most=np.full(COUNT, MOST),
        passes=0.05 + row * np.arange(COUNT + COUNT * MOST + 1),
        size=StepSize(COUNT, COUNT * MOST),
        times=PredictionTimes([SequenceTimes()] * COUNT, delay=wait, each=each, growth=0.1),
        reading=np.zeros(COUNT),
    )
    return replace(step, **changes)


def speedup(step: StepEstimate, lengths: tuple[int, ...]) -> float:
    """The equation, written out."""
    own = [1 + step.chances[row, :length].sum() for row, length in enumerate(lengths)]
    tokens = math.prod(own) ** (1 / (COUNT + step.size.num_others))
    asked = [row for row, length in enumerate(lengths) if length]
    wait = (step.times.delay + step.times.each * max(lengths)) * (1 + 0.1 * (len(asked) - 1)) if asked else 0.0
    reading = sum(step.reading[row] * own[row] for row in asked)
    plain = step.passes[COUNT]
    return tokens * plain / (step.passes[COUNT + sum(lengths)] + wait * step.wait_price + reading)


def every(step: StepEstimate) -> list[tuple[int, ...]]:
    return [*itertools.product(*(range(most + 1) for most in step.most))]


@pytest.mark.parametrize("row", [0.0005, 0.002, 0.008])
@pytest.mark.parametrize("wait", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("each", [0.0, 0.005])
@pytest.mark.parametrize("reading", [0.0, 0.5])
@pytest.mark.parametrize("num_others", [0, 4])
def test_the_search_comes_near_the_best_lengths(
    row: float, wait: float, each: float, reading: float, num_others: int
) -> None:
    size = StepSize(COUNT, COUNT * MOST, num_others)
    step = make_step(row=row, wait=wait, each=each, reading=np.full(COUNT, reading / 100), size=size)
    best = most_tokens_per_second(step)
    assert best.speedup == pytest.approx(speedup(step, tuple(best.lengths)))
    share = 0.85 if reading else 0.97  # it does not choose among those that the draft must read
    assert max(1.0, best.speedup) >= share * max(speedup(step, lengths) for lengths in every(step))


def test_predictions_that_do_not_pay_are_slower() -> None:
    assert most_tokens_per_second(make_step(row=0.1)).speedup < 1.0


def test_a_price_of_waiting_shortens_the_wait() -> None:
    step = make_step(each=0.01, wait=0.0)
    assert most_tokens_per_second(replace(step, wait_price=2.0)).wait < most_tokens_per_second(step).wait


def test_predictions_that_are_there_cost_no_wait() -> None:
    ready = PredictionTimes([SequenceTimes(num_ready=MOST)] * COUNT, delay=9.0, each=9.0)
    best = most_tokens_per_second(make_step(times=ready))
    assert sum(best.lengths) > COUNT
    assert best.wait == 0.0


def test_predictions_requested_earlier_come_sooner() -> None:
    times = PredictionTimes([SequenceTimes(elapsed=0.015)] * COUNT, delay=0.02)
    assert most_tokens_per_second(make_step(times=times)).wait == pytest.approx(0.005)


def test_a_pass_of_padded_rows_is_filled() -> None:
    stairs = np.where(np.arange(COUNT + COUNT * MOST + 1) <= 8, 0.05, 0.2)
    best = most_tokens_per_second(make_step(passes=stairs, wait=0.0))
    assert COUNT + sum(best.lengths) == 8


def test_a_protected_stream_is_not_slowed_down() -> None:
    step = make_step(wait=0.01, each=0.005)
    assert most_tokens_per_second(step).speedup > 1.2
    for protected in ([0], [2], [0, 1, 2]):
        best = most_tokens_per_second(replace(step, protected=np.array(protected)))
        for row in protected:
            tokens = 1 + step.chances[row, : best.lengths[row]].sum()
            seconds = step.passes[COUNT + sum(best.lengths)] + best.wait
            assert best.speedup == 0 or tokens * step.passes[COUNT] >= seconds


def test_other_streams_do_not_wait_for_what_they_do_not_gain() -> None:
    assert most_tokens_per_second(make_step(wait=0.03)).speedup > 1.1
    assert most_tokens_per_second(make_step(wait=0.03, size=StepSize(COUNT, COUNT * MOST, num_others=20))).speedup < 1.0


def test_rows_of_prompts_are_no_reason_to_predict() -> None:
    """Some pass must compute them in any case: only what predictions add counts, against a pass without them."""
    passes = 0.05 + 0.02 * np.arange(100)
    alone = make_step(wait=0.0, passes=passes)
    beside = replace(alone, size=StepSize(COUNT + 60, COUNT * MOST, prompt_rows=60))
    mistaken = replace(alone, size=StepSize(COUNT + 60, COUNT * MOST))
    assert most_tokens_per_second(beside).lengths == most_tokens_per_second(alone).lengths
    assert most_tokens_per_second(beside).speedup == pytest.approx(most_tokens_per_second(alone).speedup)
    assert sum(most_tokens_per_second(mistaken).lengths) > sum(most_tokens_per_second(alone).lengths)


def test_no_length_exceeds_the_rows_of_a_pass() -> None:
    assert sum(most_tokens_per_second(make_step(size=StepSize(COUNT, 1))).lengths) == 1
    assert most_tokens_per_second(make_step(size=StepSize(COUNT, 0))).lengths == [0, 0, 0]
