"""RemotePredictor: a draft may end a run with fewer predictions than were asked for, and is not waited for then."""

import pytest

from services.draft_protocol.messages import Commit, Prediction
from services.target.sequence.sequence import Sequence
from tests.unit.linked_predictor import LinkedPredictor

NEVER = 1e6  # seconds: a test that waits so long in vain hangs


@pytest.fixture
async def predictor() -> LinkedPredictor:
    predictor = LinkedPredictor(longest_wait=NEVER, is_connected=False)
    predictor.connect(run_ahead=0)
    return predictor


def num_ready(predictor: LinkedPredictor, sequence: Sequence) -> int:
    (times,) = predictor.remote.times([sequence]).sequences
    return times.num_ready


async def test_how_likely_a_run_must_be_right_goes_with_its_credit(predictor):
    sequence = predictor.add()
    predictor.remote.ask(sequence, 4, 0.666)
    (commit,) = [message for message in predictor.sent() if isinstance(message, Commit)]
    assert (commit.wanted, commit.least_chance) == (4, 0.666)


async def test_a_run_that_has_ended_is_taken_as_it_is(predictor):
    sequence = predictor.add()
    predictor.remote.ask(sequence, 4, 0.7)
    predictor.sent()
    assert num_ready(predictor, sequence) == 0
    predictor.remote.hear(Prediction(1, 1, 5, (*b"ab",), ends=True))
    assert predictor.remote.take(sequence, 4) == [*b"ab"]
    assert num_ready(predictor, sequence) >= 4, "no others come"


async def test_after_a_commit_a_new_run_is_requested(predictor):
    sequence = predictor.add()
    predictor.remote.ask(sequence, 4, 0.7)
    predictor.sent()
    predictor.remote.hear(Prediction(1, 1, 5, (*b"ab",), ends=True))
    predictor.draw(sequence, b"abc")
    assert num_ready(predictor, sequence) == 0
    predictor.remote.ask(sequence, 4)
    (commit,) = [message for message in predictor.sent() if isinstance(message, Commit)]
    assert (commit.position, commit.wanted, commit.least_chance) == (5, 4, 0.0)
