"""Source: whether a predictor is worth its cost is learned from the steps in which it had something to predict."""

import pytest

from services.engine.events import NoSpeculation
from services.engine.request import SpeculationMode, SpeculationPolicy
from services.engine.sequence import Sequence
from services.target.source import Source
from tests.silent_predictor import SilentPredictor
from tests.unit.sequences import make_request, make_sequence

MANY = 100  # steps, several times a trial of the controller


class Parrot(SilentPredictor):
    """Predicts the last token again, unless it has an excuse."""

    num_predictions = 3
    excuse = ""

    def why_none(self, sequence: Sequence) -> str:
        return self.excuse

    def predict(self, sequence: Sequence, limit: int) -> list[int]:
        return [] if self.excuse else [sequence.tokens[-1]] * limit


def make(mode: SpeculationMode = SpeculationMode.AUTO, num_predictions: int | None = None) -> Sequence:
    return make_sequence(make_request(b"x", speculation=SpeculationPolicy(mode=mode, num_predictions=num_predictions)))


def run(source: Source, sequence: Sequence, *, cost: float, num_steps: int = MANY) -> list[int]:
    """Steps that take `cost` times as long with predictions; how many predictions each of them had."""
    counts = []
    for _ in range(num_steps):
        source.begin_step()
        counts.append(len(source.predict(sequence, 64)))
        source.observe(cost if counts[-1] else 1.0, 1)
    return counts


async def test_the_predictor_says_how_many_where_the_request_does_not():
    source = Source(Parrot())
    assert len(source.predict(make(), 64)) == 3
    assert len(source.predict(make(SpeculationMode.ALWAYS, 7), 64)) == 7
    assert len(source.predict(make(), 2)) == 2
    assert source.predict(make(), -1) == []


@pytest.mark.parametrize(("cost", "last"), [(0.5, 3), (2.0, 0)])
async def test_what_does_not_pay_is_given_up(cost, last):
    sequence = make()
    source = Source(Parrot())
    counts = run(source, sequence, cost=cost)
    assert {0, 3} == set(counts), "both ways are tried"
    assert counts[-20:] == [last] * 20
    if not last:
        assert source.why_none(sequence)[0] is NoSpeculation.SLOWER


async def test_steps_without_anything_to_predict_teach_nothing():
    sequence, predictor = make(), Parrot()
    source = Source(predictor)
    predictor.excuse = "nothing comes to mind"
    assert run(source, sequence, cost=2.0) == [0] * MANY
    assert source.why_none(sequence) == (NoSpeculation.UNAVAILABLE, "nothing comes to mind")
    predictor.excuse = ""
    assert run(source, sequence, cost=2.0, num_steps=16) == [3] * 16, "the trial begins now"
    assert run(source, sequence, cost=2.0, num_steps=1) == [0]


async def test_a_request_that_insists_is_served_and_teaches_nothing():
    automatic, insistent = make(), make(SpeculationMode.ALWAYS)
    source = Source(Parrot())
    assert run(source, insistent, cost=2.0) == [3] * MANY
    run(source, automatic, cost=2.0)
    assert source.predict(automatic, 64) == []
    assert len(source.predict(insistent, 64)) == 3


async def test_one_that_comes_again_is_tried_again():
    sequence, predictor = make(), Parrot()
    source = Source(predictor)
    assert run(source, sequence, cost=2.0)[-1] == 0
    predictor.num_arrivals += 1
    assert run(source, sequence, cost=0.5)[0] == 3
