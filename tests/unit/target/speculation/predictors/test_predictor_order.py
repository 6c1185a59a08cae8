"""The order in which predictors are asked: long matches, the draft, short matches."""

import pytest

from services.target.speculation.predictors.lookup_predictor import with_lookup
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import make_request, make_sequence


@pytest.mark.parametrize("draft", [SilentPredictor(), None], ids=["draft", "alone"])
@pytest.mark.parametrize(
    ("prompt", "has_long", "has_short"),
    [(b"12345678 12345678", True, False), (b"12 12", False, True), (b"1", False, False)],
)
async def test_long_matches_are_asked_for_first_and_short_ones_last(draft, prompt, has_long, has_short):
    first, *between, last = with_lookup(*[draft] if draft else [], long_match=8)
    assert between == ([draft] if draft else [])
    sequence = make_sequence(make_request(prompt))
    for predictor in (first, last):
        predictor.commit(sequence)
    assert [not predictor.why_none(sequence) for predictor in (first, last)] == [has_long, has_short]
    for predictor in (first, last):
        predictor.close(sequence)
        assert predictor.why_none(sequence)
