"""Controller: speculation that does not pay is switched off, and looked at again."""

import pytest

from services.engine.request import SpeculationMode, SpeculationPolicy
from services.target.controller import Controller, Pace
from tests.unit.sequences import make_request, make_sequence

MANY = 4000  # steps, many times what the controller looks at


def run(controller: Controller, *, with_predictions: float, without: float, num_steps: int = MANY) -> list[bool]:
    """The kinds of the steps that follow, each of which takes so many seconds for one token."""
    kinds = []
    for _ in range(num_steps):
        kinds.append(controller.speculates)
        controller.observe(with_predictions if controller.speculates else without, 1)
    return kinds


def test_both_kinds_are_tried_before_one_is_chosen():
    kinds = run(Controller(), with_predictions=1.0, without=2.0, num_steps=40)
    assert kinds[0]
    assert {True, False} == set(kinds)
    assert kinds[-1]


@pytest.mark.parametrize(("with_predictions", "without"), [(1.0, 1.2), (1.2, 1.0)])
def test_nearly_all_steps_are_of_the_faster_kind(with_predictions, without):
    kinds = run(Controller(), with_predictions=with_predictions, without=without)
    is_faster = with_predictions < without
    assert kinds.count(is_faster) > 0.9 * MANY
    assert kinds[-200:].count(not is_faster) < 50, "the slower kind is only looked at now and then"


def test_a_change_is_noticed():
    controller = Controller()
    run(controller, with_predictions=2.0, without=1.0)
    kinds = run(controller, with_predictions=0.5, without=1.0)
    assert kinds[MANY // 2 :].count(True) > 0.9 * MANY / 2


def test_a_draft_that_has_just_come_is_tried_at_once():
    controller = Controller()
    kinds = run(controller, with_predictions=2.0, without=1.0, num_steps=100)
    assert not kinds[-1]
    controller.look_again()
    kinds = run(controller, with_predictions=0.5, without=1.0, num_steps=100)
    assert all(kinds), "what was measured with the draft before it is forgotten"


def test_the_cost_of_a_step_is_shared_by_its_tokens():
    controller = Controller()
    for _ in range(MANY):
        controller.observe(2.0 if controller.speculates else 1.0, 4 if controller.speculates else 1)
    assert controller.speculates
    assert controller.detail == "500.00 ms per token with predictions, 1000.00 ms without"


def test_a_step_without_a_token_teaches_nothing():
    controller = Controller()
    for _ in range(MANY):
        controller.observe(1.0, 0)
    assert controller.speculates
    assert controller.detail == "0.00 ms per token with predictions, 0.00 ms without"


def test_a_pace_follows_and_forgets():
    pace = Pace()
    pace.observe(3.0, 1)
    assert pace.seconds_per_token == 3.0
    for _ in range(200):
        pace.observe(1.0, 1)
    assert 1.0 <= pace.seconds_per_token < 1.001


@pytest.mark.parametrize(
    ("mode", "switched_off", "limit"),
    [
        (SpeculationMode.AUTO, False, 4),
        (SpeculationMode.AUTO, True, 0),
        (SpeculationMode.ALWAYS, False, 4),
        (SpeculationMode.ALWAYS, True, 4),
    ],
)
async def test_only_what_the_request_leaves_open_is_switched_off(mode, switched_off, limit):
    controller = Controller()
    if switched_off:
        run(controller, with_predictions=2.0, without=1.0, num_steps=100)
    sequence = make_sequence(make_request(speculation=SpeculationPolicy(mode=mode, num_predictions=4)))
    assert controller.limit(sequence, default=9) == limit


async def test_the_last_token_of_all_is_never_predicted():
    policy = SpeculationPolicy(num_predictions=9)
    sequence = make_sequence(make_request(speculation=policy, max_tokens=3))
    assert Controller().limit(sequence, default=9) == 2
