"""SuffixAutomaton: it finds what a search through the whole text finds."""

from collections.abc import Sequence as Seq

from hypothesis import given
from hypothesis import strategies as st

from services.target.speculation.predictors.suffix_automaton import SuffixAutomaton

FEW_TOKENS = st.integers(0, 2)  # so that nearly everything repeats
LARGE_TOKENS = st.sampled_from([0, 7, 151_642, 2**31 - 1])
EXACT_UP_TO = SuffixAutomaton._MOST_UPDATES  # no state of a shorter text can be left out of an update


def build(tokens: Seq[int]) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for token_id in tokens:
        automaton.append(token_id)
    return automaton


def search(tokens: list[int]) -> tuple[int, int]:
    """The longest suffix that occurred before, and the end of the latest of its earlier occurrences."""
    for length in range(len(tokens) - 1, 0, -1):
        for end in range(len(tokens) - 1, length - 1, -1):
            if tokens[end - length : end] == tokens[-length:]:
                return length, end
    return 0, 0


@given(st.lists(FEW_TOKENS | LARGE_TOKENS, max_size=EXACT_UP_TO))
def test_after_every_token_the_match_is_the_longest_and_latest(tokens: list[int]) -> None:
    automaton = SuffixAutomaton()
    for count, token_id in enumerate(tokens, 1):
        automaton.append(token_id)
        assert len(automaton) == count
        assert (automaton.match_length, automaton.match_end) == search(tokens[:count])


@given(st.lists(FEW_TOKENS, min_size=EXACT_UP_TO, max_size=200))
def test_in_a_long_text_the_match_is_the_longest_and_did_occur(tokens: list[int]) -> None:
    automaton = build(tokens)
    length, end = automaton.match_length, automaton.match_end
    assert length == search(tokens)[0]
    assert end < len(tokens)
    assert tokens[end - length : end] == tokens[len(tokens) - length :]


@given(st.lists(FEW_TOKENS, min_size=1, max_size=40), st.integers(2, 5))
def test_a_text_said_again_is_matched_at_its_last_repetition(tokens: list[int], times: int) -> None:
    automaton = build([9, *tokens * times])
    assert automaton.match_length >= (times - 1) * len(tokens)
    period = 1 + len(tokens) * times - automaton.match_end
    assert period <= len(tokens)


@given(st.lists(FEW_TOKENS, max_size=200))
def test_the_automaton_is_no_larger_than_its_tokens_allow(tokens: list[int]) -> None:
    """The bounds that make it linear."""
    automaton = build(tokens)
    count = len(tokens)
    assert len(automaton._length) <= max(2 * count - 1, count + 1)
    assert sum(map(len, automaton._next)) <= max(3 * count - 4, 3)


def test_the_last_place_of_a_long_run_of_one_token_is_found() -> None:
    count = 3 * EXACT_UP_TO
    automaton = build([5] * count)
    assert (automaton.match_length, automaton.match_end) == (count - 1, count - 1)


def test_a_new_token_matches_nothing() -> None:
    automaton = build([1, 2, 1, 2])
    automaton.append(3)
    assert (automaton.match_length, automaton.match_end) == (0, 0)
