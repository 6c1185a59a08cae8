"""A DraftedSequence of a target with another vocabulary: it hears of the target's tokens, and chains its own."""

import pytest

from services.draft.drafted_sequence import DraftedSequence
from services.draft.vocabulary.translation import Run
from services.draft.vocabulary.vocabularies import translation_along
from services.engine.allowed_tokens import AllowedTokens
from services.engine.sampling_params import SamplingParams
from tests.harness.grammar.grammars import allowed
from tests.unit.draft.vocabulary.test_vocabulary_map import make_map

OWN = ["a", "b", "c", "ab"]
TARGET = ["abc", "b", "a", "c"]  # the first has no partner and is ab + c
ABC, B, A, C = range(4)


def make(**fields) -> DraftedSequence:
    params = SamplingParams(seed=1, **fields)
    translation = translation_along(make_map(OWN, TARGET), params)
    sequence = DraftedSequence(params, translation, num_prompt=2, min_tokens=0, masked_ids=[ABC, C])
    sequence.window = 8
    return sequence


def own(text: str) -> list[int]:
    return [OWN.index(token) for token in text.split()]


def test_no_prediction_is_made_before_the_whole_prompt_is_there():
    sequence = make()
    sequence.commit(0, [ABC])
    assert (sequence.tokens, sequence.credit) == (own("ab c"), 0)
    sequence.commit(1, [A])
    assert (sequence.tokens, sequence.credit) == (own("ab c a"), 8)


def test_a_chain_stays_in_step_with_the_targets_commits():
    sequence = make()
    sequence.commit(0, [ABC, A])
    sequence.predicted(own("b c"))
    assert sequence.next_run() == Run(2, [B, C])
    epoch = sequence.epoch
    sequence.commit(2, [B])
    assert (sequence.chain, sequence.epoch) == (own("c"), epoch)
    sequence.predicted(own("a"))
    assert sequence.next_run() == Run(4, [A])
    sequence.commit(3, [C, ABC])
    assert (sequence.tokens, sequence.epoch) == (own("ab c a b c ab c"), epoch + 1)
    sequence.predicted(own("a"))
    assert sequence.next_run() == Run(5, [A])
    assert sequence.next_run() == Run(6, [])


def test_the_same_text_in_other_tokens_is_no_agreement():
    """What is computed stays, but for the row that the next draw needs."""
    sequence = make()
    sequence.commit(0, [A, A])
    sequence.predicted(own("ab c a"))
    sequence.text.num_computed = 4
    epoch = sequence.epoch
    sequence.commit(2, [ABC])
    assert (sequence.tokens, sequence.chain, sequence.epoch) == (own("a a ab c"), [], epoch + 1)
    assert (sequence.text.num_computed, sequence.text.num_pending) == (3, 1)
    sequence.predicted(own("b"))
    assert sequence.next_run() == Run(3, [B])


def test_a_rewind_is_to_the_target_s_position():
    sequence = make()
    sequence.commit(0, [ABC, A, ABC, B])
    sequence.commit(2, [C])
    assert sequence.tokens == own("ab c a c")
    sequence.commit(2, [C])
    assert sequence.tokens == own("ab c a c")
    with pytest.raises(ValueError, match="a commit at 4 leaves a gap: 3 tokens are committed"):
        sequence.commit(4, [A])


def test_ids_outside_the_targets_vocabulary_are_recognised():
    sequence = make()
    assert sequence.has_tokens([0, 4])
    assert not sequence.has_tokens([5])


def test_masks_and_biases_are_those_of_the_partners():
    sequence = make(logit_bias={ABC: 9.0, A: 1.0, 4: 2.0})
    assert sequence._masked_ids == own("c")
    assert sequence._params.logit_bias == {OWN.index("a"): 1.0, len(OWN): 2.0}
    sequence.check(len(OWN) + 1)


def test_allowed_tokens_are_those_of_the_partners():
    sequence = make(allowed_tokens=AllowedTokens.of([ABC, A, C], vocab_size=5))
    assert allowed(sequence.mask[0], len(OWN)) == sorted([OWN.index("a"), OWN.index("c")])
    sequence.commit(0, [A, A, A])
    sequence.grant(8)
    assert sequence.credit == 1
