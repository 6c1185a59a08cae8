"""LookupPredictor: a text is predicted to go on as where it read the same, as far as that has proved right."""

import pytest

from services.engine.request import SpeculationMode, SpeculationPolicy
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.context_index import ContextIndex
from services.target.speculation.predictors.lookup_predictor import LookupPredictor
from services.target.speculation.predictors.predictor import PredictionRequest
from tests.unit.sequences import make_output, make_request, make_sequence, records_of

MANY = 100


class Lookup:
    """A predictor that follows one sequence, with the index that it looks up in."""

    def __init__(self, prompt: bytes, *, lengths: range = range(2, 10_000), **options) -> None:
        self.index = ContextIndex()
        self.predictor = LookupPredictor(self.index, lengths=lengths)
        self.output = make_output(make_request(prompt, **options))
        self.sequence = self.output.sequence
        self.predictor.commit(self.sequence)

    def predict(self, limit: int = MANY) -> bytes:
        return self.predict_for(self.sequence, limit)

    def predict_for(self, sequence: Sequence, limit: int) -> bytes:
        (token_ids,) = self.predictor.predict([PredictionRequest(sequence, limit)])
        return bytes(token_ids)

    def draw(self, tokens: bytes) -> None:
        self.output.commit(records_of(tokens))
        self.predictor.commit(self.sequence)


async def test_the_continuation_of_the_same_text_is_predicted():
    lookup = Lookup(b"one two three; one two")
    assert lookup.predict() == b" three;"
    assert lookup.predict(limit=3) == b" th"
    assert lookup.predictor.why_none(lookup.sequence) == ""


async def test_the_latest_of_several_places_counts():
    assert Lookup(b"ab1 ab2 ab").predict() == b"2 a"


@pytest.mark.parametrize(("prompt", "predicted"), [(b"xababab", b"abab"), (b"xzzzzz", b"zzzz"), (b"xabcabc", b"abc")])
async def test_a_repetition_continues_into_its_own_prediction(prompt, predicted):
    assert Lookup(prompt).predict() == predicted


async def test_no_more_is_predicted_than_was_matched():
    lookup = Lookup(b"abcdefgh ab")
    assert lookup.predict() == b"cd"
    lookup.draw(b"c")
    assert lookup.predict() == b"def"


@pytest.mark.parametrize(
    ("lengths", "predicted"), [(range(3, 9), b" th"), (range(4, 9), b""), (range(1, 3), b""), (range(1, 4), b" th")]
)
async def test_only_matches_of_its_lengths_are_used(lengths, predicted):
    lookup = Lookup(b"two three; two", lengths=lengths)
    assert lookup.predict() == predicted
    assert bool(lookup.predictor.why_none(lookup.sequence)) == (not predicted)


async def test_a_text_without_match_has_no_prediction_and_a_reason():
    lookup = Lookup(b"abcdef")
    assert lookup.predict() == b""
    assert lookup.predictor.why_none(lookup.sequence) == "the text does not repeat itself"


async def test_generated_text_is_looked_up_too():
    lookup = Lookup(b"x")
    lookup.draw(b"abcd")
    assert lookup.predict() == b""
    lookup.draw(b"ab")
    assert lookup.predict() == b"cd"


async def test_a_long_prompt_is_taken_in_over_several_passes():
    prompt = bytes(number % 251 for number in range(2000))
    lookup = Lookup(prompt)
    for _ in range(7):
        assert lookup.predict() == b""
        lookup.predictor.commit(lookup.sequence)
    assert lookup.predict(limit=8) == bytes(number % 251 for number in range(2000, 2008))


async def test_a_request_may_forbid_it():
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, lookup=False)
    lookup = Lookup(b"abcabc", speculation=policy)
    assert lookup.predict() == b""
    assert lookup.predictor.why_none(lookup.sequence) == "the request forbids the lookup"
    lookup.predictor.close(lookup.sequence)


async def test_a_closed_sequence_is_forgotten():
    lookup = Lookup(b"abcabc")
    lookup.predictor.close(lookup.sequence)
    assert not lookup.index._automata


@pytest.mark.parametrize(("prompt", "most"), [(b"abcab", 8), (bytes(range(251)) * 2 + b"ab", 900)])
async def test_what_all_sequences_hold_is_bounded(prompt, most):
    """A text is taken in as a whole or not at all."""
    index = ContextIndex(most_held=most)
    one, other = (make_sequence(make_request(prompt)) for _ in range(2))
    for _ in range(3):
        index.follow(one)
        index.follow(other)
    assert (index.match(one), index.match(other)) == (2, 0)
    index.close(one)
    for _ in range(2):
        index.follow(other)
    assert index.match(other) == 2


async def test_sequences_do_not_see_each_other():
    lookup = Lookup(b"abcdefgh")
    other = make_sequence(make_request(b"zzab"))
    lookup.predictor.commit(other)
    assert lookup.predict_for(other, MANY) == b""


async def test_tokens_that_were_taken_back_were_never_there():
    lookup = Lookup(b"one two three; one ", banned=["one ta"])
    lookup.draw(b"one t")
    assert lookup.predict() == b"wo th"
    lookup.draw(b"a")
    assert bytes(lookup.sequence.tokens) == b"one two three; one "
    assert lookup.predict() == b"two "
    lookup.draw(b"on")
    assert lookup.predict(limit=2) == b"e "


def expecting(expected: bytes, prompt: bytes = b"say: ") -> Lookup:
    return Lookup(prompt, speculation=SpeculationPolicy(expected=tuple(expected)))


async def test_an_answer_continues_as_the_tokens_that_are_expected():
    """After a change, too; what the answer itself has said later counts more."""
    lookup = expecting(b"one two three four five six")
    assert lookup.predict() == b""
    lookup.draw(b"one 2 three")
    assert lookup.predict() == b" four "
    lookup.draw(b" 4; three")
    assert lookup.predict() == b" 4; th"
    lookup.draw(b" four five six")
    assert lookup.predict() == b"", "that was all"


async def test_nothing_is_matched_across_the_end_of_what_is_expected():
    lookup = expecting(b"xab", prompt=b"cd; ab")
    assert lookup.predict() == b""
    lookup = expecting(b"bc", prompt=b"abc")
    assert lookup.predict() == b""


async def test_many_expected_tokens_are_taken_in_over_several_steps():
    expected = bytes(range(1, 250)) * 4 + b"and so on"
    lookup = expecting(expected)
    for _ in range(len(expected) // 256):
        lookup.draw(b"")
    lookup.draw(b"and so")
    assert lookup.predict() == b" on"


async def test_tokens_taken_back_are_forgotten_but_not_expected_ones():
    lookup = expecting(b"one two three")
    lookup.draw(b"one two")
    assert lookup.predict() == b" three"
    del lookup.sequence.tokens[-3:]
    lookup.predictor.commit(lookup.sequence)
    assert lookup.predict() == b"two "
