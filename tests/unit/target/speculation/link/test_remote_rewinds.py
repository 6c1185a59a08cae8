"""RemotePredictor: what a draft is sent where tokens were taken back, and which of its answers are still useful."""

from services.draft_protocol.messages import Commit
from tests.unit.linked_predictor import PROMPT, LinkedPredictor


async def test_tokens_that_were_taken_back_are_replaced_in_one_commit():
    """Predictions after the old tokens are useless, and no step waits for them."""
    predictor = LinkedPredictor(longest_wait=60.0)
    sequence = predictor.add(banned=["bad"])
    predictor.draw(sequence, b"a ba")
    predictor.sent()
    assert predictor.hear(9, b"d da")
    predictor.draw(sequence, b"d")
    assert bytes(sequence.tokens) == PROMPT + b"a "
    assert predictor.predict(sequence, 4) == []
    assert not predictor.hear(13, b"ys")
    assert predictor.sent() == []
    predictor.draw(sequence, b"c")
    assert predictor.sent() == [Commit(1, 7, [*b"c"])]
    assert not predictor.hear(15, b"!")
    assert predictor.hear(8, b"at", epoch=2)
    assert predictor.predict(sequence, 2) == [*b"at"]


async def test_a_draft_that_missed_a_rewind_gets_only_the_final_tokens():
    predictor = LinkedPredictor()
    sequence = predictor.add(banned=["bad"])
    predictor.sent()
    for tokens in (b"a ba", b"d", b"c"):
        predictor.draw(sequence, tokens)
    assert predictor.sent() == [Commit(1, 5, [*b"a c"])]


async def test_a_rewind_ends_the_wait_and_counts_as_no_delay():
    predictor = LinkedPredictor(longest_wait=60.0)
    predictor.connect(run_ahead=0)
    sequence = predictor.add()
    predictor.predict(sequence, 2, max_wait=0.0)
    predictor.sent()
    predictor.draw(sequence, b"abc")
    predictor.predict(sequence, 2, max_wait=0.0)
    predictor.sent()
    del sequence.tokens[-2:]
    predictor.follow(sequence)
    assert predictor.predict(sequence, 2, max_wait=60.0) == []
    times = predictor.remote.times([sequence])
    assert times.delay == 0.0
    assert times.sequences[0].elapsed == 0.0
