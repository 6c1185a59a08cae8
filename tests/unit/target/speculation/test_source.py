"""Source: a request's own number of predictions is asked of its predictor; otherwise its controller decides."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

import pytest

from services.engine.events import NoSpeculation
from services.engine.request import SpeculationMode, SpeculationPolicy
from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from services.target.speculation.policy.speculation_plan import Decision, StepSize
from services.target.speculation.predictors.context_index import ContextIndex
from services.target.speculation.predictors.lookup_predictor import LookupPredictor
from services.target.speculation.predictors.predictor import PredictionRequest
from services.target.speculation.source import DraftSource, Source
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import make_request, make_sequence
from tests.unit.simulation import Clock

MANY = 100  # steps


class Excused(SilentPredictor):
    """May have an excuse."""

    num_predictions = 3
    excuse = ""

    def why_none(self, sequence: Sequence) -> str:
        return self.excuse


def make(
    mode: SpeculationMode = SpeculationMode.AUTO, num_predictions: int | None = None, max_tokens: int = 1000
) -> Sequence:
    policy = SpeculationPolicy(mode=mode, num_predictions=num_predictions)
    return make_sequence(make_request(b"x", speculation=policy, max_tokens=max_tokens))


def insistent(num_predictions: int | None = None, **options: int) -> Sequence:
    return make(SpeculationMode.ALWAYS, num_predictions, **options)


def make_source(predictor: SilentPredictor | None = None, clock: Clock | None = None) -> Source:
    config = PolicyConfig()
    return DraftSource(predictor or Excused(), PassCost(config), Regret(config, clock or Clock()), config)


def run(
    predictor: Excused,
    sequence: Sequence,
    *,
    gain: int,
    num_steps: int = MANY,
    clock: Clock | None = None,
) -> tuple[Source, list[int]]:
    """Steps of a tenth of a second each, with predictions that are all right or all wrong; returns what was asked."""
    config, clock = PolicyConfig(), clock or Clock()
    cost, regret = PassCost(config), Regret(config, clock)
    regret.join(sequence)
    source, counts = DraftSource(predictor, cost, regret, config), []
    for _ in range(num_steps):
        plan = source.plan([sequence], StepSize(1, 64))
        (count,) = plan.lengths
        counts.append(count)
        clock.now += 0.1 + 0.005 * count
        cost.observe(1 + count, 0.1 + 0.005 * count)
        if count:
            source.settle(sequence, count, count * gain)
        regret.observe(sequence, 0.005 * count - 0.1 * count * gain)
    return source, counts


async def test_an_insistent_request_gets_its_length_or_the_predictors():
    source = make_source()
    assert source.plan([insistent(), insistent(7), insistent(0)], StepSize(3, 64)).lengths == [3, 7, 0]


async def test_the_oldest_comes_first_where_rows_are_short():
    source = make_source()
    assert source.plan([insistent(4), insistent(4), insistent(4)], StepSize(3, 6)).lengths == [4, 2, 0]
    assert source.plan([insistent(4)], StepSize(64, 0)).lengths == [0]


@pytest.mark.parametrize("gain", [0, 1])
@pytest.mark.parametrize("spare_rows", [0, 3, 8])
@pytest.mark.parametrize("num_insistent", [0, 2])
async def test_no_more_is_asked_for_than_there_are_rows(gain, spare_rows, num_insistent):
    sequences = [insistent(2) for _ in range(num_insistent)] + [make() for _ in range(12 - num_insistent)]
    config, clock = PolicyConfig(), Clock()
    cost, regret = PassCost(config), Regret(config, clock)
    source, asked = DraftSource(Excused(), cost, regret, config), []
    for sequence in sequences:
        regret.join(sequence)
    for _ in range(4 * MANY):  # they do not pay, or hardly, so that some are tried now and then
        plan = source.plan(sequences, StepSize(12, spare_rows))
        counts = plan.lengths
        asked.append(sum(counts))
        clock.now += 0.12
        cost.observe(12 + sum(counts), 0.12 + 0.01 * sum(counts))
        for sequence, count in zip(sequences, counts, strict=True):
            if count:
                source.settle(sequence, count, count * gain)
            regret.observe(sequence, 0.01 * sum(counts) - 0.12 * count * gain)
    assert max(asked) <= spare_rows
    assert any(asked) == (spare_rows > 0)


async def test_the_last_token_of_all_is_never_predicted():
    assert make_source().plan([insistent(9, max_tokens=3)], StepSize(1, 64)).lengths == [2]


async def test_paying_predictions_are_used_up_to_the_requests_number():
    _, counts = run(Excused(), make(num_predictions=6), gain=1)
    assert counts == [0, *[6] * (MANY - 1)], "a plain pass is measured first"


async def test_predictions_that_do_not_pay_stop_with_a_reason():
    sequence = make()
    source, counts = run(Excused(), sequence, gain=0)
    assert any(counts), "it was tried"
    assert counts[-20:].count(0) > 10
    plan = source.plan([sequence], StepSize(1, 64))
    assert source.why_none(sequence, plan)[0] is NoSpeculation.SLOWER


async def test_a_predictor_with_an_excuse_is_not_asked():
    sequence, predictor = make(), Excused()
    predictor.excuse = "nothing comes to mind"
    source, counts = run(predictor, sequence, gain=1)
    assert counts == [0] * MANY
    plan = source.plan([sequence], StepSize(1, 64))
    assert source.why_none(sequence, plan) == (NoSpeculation.UNAVAILABLE, "nothing comes to mind")


async def test_a_source_without_a_draft_asks_for_what_the_plan_says():
    class Lister(LookupPredictor):
        asked: list[int]

        def predict(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
            self.asked = [request.length for request in requests]
            return ([7] * 9 for _ in requests)

    predictor, config = Lister(ContextIndex(), lengths=range(1, 9)), PolicyConfig()
    source = Source(predictor, PassCost(config), Regret(config, Clock()), config)
    sequences = [insistent(2), insistent(0), insistent(3)]
    plan = source.plan(sequences, StepSize(3, 64))
    predictions = source.predict(sequences, plan)
    assert predictor.asked == [2, 0, 3]
    assert [*predictions] == [[7, 7], [7, 7, 7]], "cut, and none of the second, which gets none"
    assert (source.is_busy, source.serves(sequences[0])) == (False, True)


async def test_a_step_that_measures_says_so():
    sequence, source = make(), make_source()
    plan = source.plan([sequence], StepSize(1, 64))
    assert plan.automatic.decision is Decision.MEASURE
    assert source.why_none(sequence, plan) == (NoSpeculation.UNAVAILABLE, "the speed without predictions was measured")


async def test_a_predictor_that_returns_is_tried_again():
    sequence, predictor = make(), Excused()
    source, counts = run(predictor, sequence, gain=0)
    assert set(counts[-5:]) == {0}
    predictor.num_arrivals += 1
    assert source.plan([sequence], StepSize(1, 64)).automatic.lengths[0]
