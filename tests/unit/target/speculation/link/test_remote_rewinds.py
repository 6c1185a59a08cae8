"""RemotePredictor: what a draft is told where tokens were taken back, and what of its answers is still of use."""

import time

from services.draft_protocol.messages import Commit
from tests.unit.linked_predictor import PROMPT, LinkedPredictor


async def test_tokens_that_were_taken_back_are_replaced_in_one_commit():
    """What the draft says of the old ones is of no use, and nobody waits for it."""
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


async def test_a_draft_that_has_not_heard_of_the_tokens_taken_back_is_told_all_that_it_lacks():
    predictor = LinkedPredictor()
    sequence = predictor.add(banned=["bad"])
    predictor.sent()
    for tokens in (b"a ba", b"d", b"c"):
        predictor.draw(sequence, tokens)
    assert predictor.sent() == [Commit(1, 5, [*b"a c"])]


async def test_after_a_rewind_nobody_waits_and_the_silence_is_not_the_drafts():
    predictor = LinkedPredictor(longest_wait=60.0)
    predictor.connect(run_ahead=0)
    sequence = predictor.add()
    predictor.predict(sequence, 2, until=0.0)
    predictor.sent()
    predictor.draw(sequence, b"abc")
    predictor.predict(sequence, 2, until=0.0)
    predictor.sent()
    del sequence.tokens[-2:]
    predictor.follow(sequence)
    assert predictor.predict(sequence, 2, until=time.monotonic() + 60.0) == []
    times = predictor.remote.times([sequence])
    assert times.delay == 0.0
    assert times.sequences[0].elapsed == 0.0
