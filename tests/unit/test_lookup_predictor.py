"""LookupPredictor: a text is predicted to go on as where it read the same, as far as that has proved right."""

import pytest

from services.engine.request import SpeculationMode, SpeculationPolicy
from services.target.context_index import ContextIndex
from services.target.lookup_predictor import LookupPredictor, with_lookup
from tests.silent_predictor import SilentPredictor
from tests.unit.sequences import make_request, make_sequence, records_of

MANY = 100


class Lookup:
    """A predictor that follows one sequence, with the index that it looks up in."""

    def __init__(self, prompt: bytes, *, shortest_match: int = 2, **options) -> None:
        self.index = ContextIndex()
        self.predictor = LookupPredictor(self.index, shortest_match=shortest_match)
        self.sequence = make_sequence(make_request(prompt, **options))
        self.predictor.commit(self.sequence)

    def predict(self, limit: int = MANY) -> bytes:
        return bytes(self.predictor.predict(self.sequence, limit))

    def draw(self, tokens: bytes) -> None:
        self.sequence.commit(records_of(tokens))
        self.predictor.commit(self.sequence)


async def test_what_followed_the_same_text_is_predicted():
    lookup = Lookup(b"one two three; one two")
    assert lookup.predict() == b" three;"
    assert lookup.predict(limit=3) == b" th"
    assert lookup.predictor.why_none(lookup.sequence) == ""


async def test_the_latest_of_several_places_counts():
    assert Lookup(b"ab1 ab2 ab").predict() == b"2 a"


@pytest.mark.parametrize(("prompt", "predicted"), [(b"xababab", b"abab"), (b"xzzzzz", b"zzzz"), (b"xabcabc", b"abc")])
async def test_a_repetition_goes_on_into_what_it_predicts(prompt, predicted):
    assert Lookup(prompt).predict() == predicted


async def test_no_more_is_predicted_than_was_matched():
    lookup = Lookup(b"abcdefgh ab")
    assert lookup.predict() == b"cd"
    lookup.draw(b"c")
    assert lookup.predict() == b"def"


@pytest.mark.parametrize(("shortest", "predicted"), [(3, b" th"), (4, b"")])
async def test_a_short_match_says_nothing(shortest, predicted):
    lookup = Lookup(b"two three; two", shortest_match=shortest)
    assert lookup.predict() == predicted
    assert bool(lookup.predictor.why_none(lookup.sequence)) == (not predicted)


async def test_a_new_text_has_no_prediction_and_says_so():
    lookup = Lookup(b"abcdef")
    assert lookup.predict() == b""
    assert lookup.predictor.why_none(lookup.sequence) == "the text does not repeat itself"


async def test_what_was_generated_is_looked_up_too():
    lookup = Lookup(b"x")
    lookup.draw(b"abcd")
    assert lookup.predict() == b""
    lookup.draw(b"ab")
    assert lookup.predict() == b"cd"


async def test_after_a_wrong_prediction_a_longer_match_is_asked_for_until_one_is_right():
    lookup = Lookup(b"abcdefgh ab")
    assert lookup.predict() == b"cd"
    lookup.draw(b"!ab")
    assert lookup.predict() == b"", "two tokens were not enough"
    lookup.draw(b"cd")
    assert lookup.predict() == b"efgh"
    lookup.draw(b"e?ab")
    assert lookup.predict() == b"cd", "the one before was right"


async def test_however_many_went_wrong_a_long_match_is_tried():
    text = bytes(range(100, 120))
    lookup = Lookup(text + b"\0", max_tokens=1000)
    for number in range(1, 10):
        lookup.draw(text)
        assert lookup.predict(limit=1) == bytes([number - 1])
        lookup.draw(bytes([number]))
    lookup.draw(text[:8])
    assert lookup.predict() == b""


async def test_a_long_prompt_is_taken_in_over_several_passes():
    prompt = bytes(number % 251 for number in range(2000))
    lookup = Lookup(prompt)
    assert lookup.predict() == b""
    num_passes = 1
    while not lookup.predict(limit=8):
        lookup.predictor.commit(lookup.sequence)
        num_passes += 1
    assert num_passes == 8
    assert lookup.predict(limit=8) == bytes(number % 251 for number in range(2000, 2008))


async def test_a_request_may_forbid_it():
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, lookup=False)
    lookup = Lookup(b"abcabc", speculation=policy)
    assert lookup.predict() == b""
    assert lookup.predictor.why_none(lookup.sequence) == "the request forbids the lookup"
    lookup.predictor.close(lookup.sequence)


async def test_a_closed_sequence_is_forgotten():
    lookup = Lookup(b"abcabc")
    lookup.predictor.predict(lookup.sequence, 4)
    lookup.predictor.close(lookup.sequence)
    assert not lookup.predictor._bets
    assert not lookup.index._automata


async def test_sequences_do_not_see_each_other():
    lookup = Lookup(b"abcdefgh")
    other = make_sequence(make_request(b"zzab"))
    lookup.predictor.commit(other)
    assert [*lookup.predictor.predict(other, MANY)] == []


async def test_long_matches_come_before_the_draft_and_short_ones_behind_it():
    draft = SilentPredictor()
    first, second, last = with_lookup(draft)
    assert second is draft
    cases = [(b"12345678 12345678", (True, True)), (b"1234 1234", (False, True)), (b"1", (False, False))]
    for prompt, expected in cases:
        sequence = make_sequence(make_request(prompt))
        first.commit(sequence)
        last.commit(sequence)
        assert tuple(not predictor.why_none(sequence) for predictor in (first, last)) == expected
        first.close(sequence)
        last.close(sequence)


async def test_without_a_draft_there_is_one_lookup():
    (only,) = with_lookup(None)
    sequence = make_sequence(make_request(b"12 12"))
    only.commit(sequence)
    assert only.why_none(sequence) == ""
