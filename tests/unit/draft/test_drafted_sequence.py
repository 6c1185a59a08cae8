"""DraftedSequence: what a commit keeps of the draft's chain, and when the draft may draw."""

import pytest

from services.draft.drafted_sequence import DraftedSequence
from services.draft.vocabulary.identity_translation import IdentityTranslation
from services.engine.allowed_tokens import AllowedTokens
from services.engine.sampling_params import SamplingParams
from tests.harness.grammar.grammars import allowed, compiled
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer

PROMPT = [1, 2, 3]


def make_sequence(*, num_prompt: int = len(PROMPT), masked_ids=(), **sampling) -> DraftedSequence:
    params = SamplingParams(seed=1, **sampling)
    return DraftedSequence(
        params, IdentityTranslation(VOCAB_SIZE), num_prompt=num_prompt, min_tokens=0, masked_ids=masked_ids
    )


def with_chain(chain: list[int], *, window: int = 8) -> DraftedSequence:
    """A sequence whose prompt is committed and whose chain is drawn: all but the last token are computed."""
    sequence = make_sequence()
    sequence.window = window
    sequence.commit(0, PROMPT)
    sequence.predicted(chain)
    sequence.text.num_computed = len(sequence.tokens) - 1
    return sequence


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_commit_that_agrees_keeps_the_chain_and_its_epoch(size):
    sequence = with_chain([4, 5, 6])
    epoch = sequence.epoch
    sequence.commit(3, [4, 5, 6][:size])
    assert (sequence.tokens, sequence.epoch, sequence.text.num_pending) == ([*PROMPT, 4, 5, 6], epoch, 1)
    assert sequence.chain == [4, 5, 6][size:]


@pytest.mark.parametrize(
    ("token_ids", "num_computed"), [([9], 3), ([4, 9], 4), ([4, 5, 9], 5), ([4, 5, 6, 7], 5), ([4, 5, 6, 7, 8], 5)]
)
def test_a_commit_that_differs_or_runs_past_starts_an_epoch(token_ids, num_computed):
    sequence = with_chain([4, 5, 6])
    epoch = sequence.epoch
    sequence.commit(3, token_ids)
    assert (sequence.tokens, sequence.chain) == ([*PROMPT, *token_ids], [])
    assert (sequence.epoch, sequence.text.num_computed) == (epoch + 1, num_computed)


def test_saying_a_commit_twice_changes_nothing():
    sequence = with_chain([4, 5, 6])
    sequence.commit(3, [4])
    before = (list(sequence.tokens), sequence.epoch, sequence.text.num_computed, sequence.chain)
    sequence.commit(3, [4])
    sequence.commit(0, [*PROMPT, 4])
    assert (sequence.tokens, sequence.epoch, sequence.text.num_computed, sequence.chain) == before


@pytest.mark.parametrize(
    ("position", "token_ids", "tokens"),
    [
        (4, [], [1, 2, 3, 4]),
        (0, [], []),
        (2, [7], [1, 2, 7]),
        (2, [3, 4], [1, 2, 3, 4]),
        (3, [9, 9, 9, 9], [1, 2, 3, 9, 9, 9, 9]),
    ],
)
def test_a_rewind_forgets_the_tokens_after_it(position, token_ids, tokens):
    sequence = with_chain([4, 5, 6, 7])
    sequence.commit(3, [4, 5, 6])
    epoch, history = sequence.epoch, sequence.sampling
    sequence.commit(position, token_ids)
    assert (sequence.tokens, sequence.num_committed, sequence.chain) == (tokens, len(tokens), [])
    assert sequence.epoch == epoch + 1
    assert not tokens or sequence.text.num_pending >= 1, "the next token is drawn from the last one's row"
    if len(tokens) >= len(PROMPT):
        assert sequence.sampling is not history
        assert sequence.sampling.num_generated == len(tokens) - len(PROMPT)


def test_the_sampling_history_follows_commits_not_the_chain():
    sequence = with_chain([4, 5, 6])
    assert sequence.sampling.num_generated == 0
    sequence.commit(3, [4, 5])
    assert sequence.sampling.num_generated == 2
    sequence.commit(5, [9])
    assert sequence.sampling.num_generated == 3


def test_a_gap_is_refused_and_changes_nothing():
    sequence = with_chain([4, 5])
    with pytest.raises(ValueError, match="a commit at 4 leaves a gap: 3 tokens are committed"):
        sequence.commit(4, [6])
    assert sequence.tokens == [*PROMPT, 4, 5]


def test_there_is_no_credit_before_the_whole_prompt_is_there():
    sequence = make_sequence()
    sequence.window = 5
    credits = [sequence.credit]
    for position, token_id in enumerate(PROMPT):
        sequence.commit(position, [token_id])
        credits.append(sequence.credit)
    assert credits == [0, 0, 0, 5]


@pytest.mark.parametrize(("window", "credit"), [(0, 0), (1, 0), (2, 0), (3, 1), (10, 8)])
def test_credit_is_the_window_beyond_the_chain(window, credit):
    assert with_chain([4, 5], window=window).credit == credit


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": float("nan")},
        {"temperature": -1.0},
        {"temperature": 1e300},
        {"top_k": -1},
        {"top_p": 0.0},
        {"min_p": 2.0},
        {"repetition_penalty": 0.0},
        {"frequency_penalty": float("inf")},
        {"presence_penalty": float("nan")},
        {"logit_bias": {10: 1.0}},
        {"logit_bias": {2**32 - 1: 1.0}},
        {"logit_bias": {1: float("inf")}},
        {"masked_ids": [10]},
        {"masked_ids": [2**32 - 1]},
    ],
    ids=str,
)
def test_sampling_that_no_vocabulary_allows_is_refused_at_once(sampling):
    make_sequence(masked_ids=[9], logit_bias={9: float("-inf")}).check(vocab_size=10)
    with pytest.raises(ValueError, match=r".+"):
        make_sequence(**sampling).check(vocab_size=10)


def following(chain: bytes) -> DraftedSequence:
    """A sequence whose text is one of the choice's, and whose chain is drawn."""
    grammar = compiled("choice", byte_tokenizer(), VOCAB_SIZE)
    params = SamplingParams(seed=1)
    sequence = DraftedSequence(
        params, IdentityTranslation(VOCAB_SIZE), num_prompt=len(PROMPT), min_tokens=0, masked_ids=[END], grammar=grammar
    )
    sequence.window = 20
    sequence.commit(0, PROMPT)
    sequence.predicted([*chain])
    sequence.text.num_computed = len(sequence.tokens) - 1
    return sequence


def next_ids(sequence: DraftedSequence) -> list[int]:
    assert sequence.mask is not None
    assert len(sequence.mask) == 1
    return allowed(sequence.mask[0], VOCAB_SIZE)


def test_with_allowed_tokens_draws_are_single_without_alternates():
    allowed_tokens = AllowedTokens.of([70, 5], vocab_size=VOCAB_SIZE)
    sequence = make_sequence(allowed_tokens=allowed_tokens)
    sequence.commit(0, PROMPT)
    sequence.grant(8, 3)
    assert (sequence.credit, sequence.num_alternates) == (1, 0)
    assert allowed(sequence.mask[0], VOCAB_SIZE) == [5, 70]


def test_a_grammars_mask_is_restricted_to_the_allowed_tokens():
    params = SamplingParams(seed=1, allowed_tokens=AllowedTokens.of(b"ny", vocab_size=VOCAB_SIZE))
    grammar = compiled("choice", byte_tokenizer(), VOCAB_SIZE)
    sequence = DraftedSequence(
        params, IdentityTranslation(VOCAB_SIZE), num_prompt=len(PROMPT), min_tokens=0, masked_ids=[END], grammar=grammar
    )
    sequence.commit(0, PROMPT)
    assert allowed(sequence.mask[0], VOCAB_SIZE) == sorted(b"ny")


def test_without_a_grammar_there_is_no_mask():
    assert with_chain([4]).mask is None


@pytest.mark.parametrize(
    ("chain", "expected"), [(b"", b"yna\\"), (b"n", b"o"), (b"yes", [*b",", END]), (b"no\n", [END]), (b"nx", b"")]
)
def test_the_mask_follows_the_chain_and_draws_are_single(chain, expected):
    sequence = following(chain)
    assert next_ids(sequence) == sorted(expected)
    assert sequence.credit == 1


def test_nothing_is_drawn_after_a_stop_token():
    sequence = following(b"yes")
    sequence.predicted([END])
    assert next_ids(sequence) == []
    sequence.commit(len(PROMPT), b"yes,")
    assert next_ids(sequence) == [*b" "]


@pytest.mark.parametrize(
    ("position", "token_ids", "expected"),
    [
        (3, b"ye", b" "),
        (3, b"yes, of", b" "),
        (3, b"yes,x", b""),
        (3, b"no", b"\n"),
        (1, [2, 3], b" "),
        (1, [2, 9], b"yna\\"),
        (0, [], b"yna\\"),
    ],
)
def test_the_mask_follows_commits_and_rewinds(position, token_ids, expected):
    sequence = following(b"yes,")
    assert next_ids(sequence) == [*b" "]
    sequence.commit(position, [*token_ids])
    assert next_ids(sequence) == sorted(expected)
    sequence.commit(0, [*PROMPT, *b"yes, of"])
    assert next_ids(sequence) == [*b" "]
    sequence.commit(len(PROMPT) + 2, b"s")
    assert next_ids(sequence) == [*b",", END]
