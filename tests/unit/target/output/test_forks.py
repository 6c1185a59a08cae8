"""Forks are independent: each gives the output of a fresh one for the same tokens."""

from collections.abc import Callable
from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.draft.drafted_sequence import RewindableMatcher
from services.target.output.banned_strings import BannedStrings
from services.target.output.detokenizer import Detokenizer
from services.target.output.loop_detector import LoopDetector
from services.target.output.stop_strings import StopStrings
from services.target.speculation.predictors.context_index import ContextIndex
from services.target.speculation.predictors.suffix_automaton import SuffixAutomaton
from tests.harness.grammar.grammars import compiled
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer, make_request, make_sequence

STRINGS = ["ab", "bé", "<end>b"]
TOKENS = st.sampled_from([*"abé€".encode(), END])
FORKS = st.lists(st.tuples(st.integers(0, 5), st.none() | TOKENS), max_size=40)  # None forks the one of that number


def push_text(text: Detokenizer, token_id: int) -> tuple[Any, ...]:
    if text.banned is not None:
        return ()
    said = text.push(token_id)
    return *said, text.banned, text.num_unsafe, text.fork().finish()


def feed(search: StopStrings, token_id: int) -> tuple[Any, ...]:
    return search.feed(byte_tokenizer().token_bytes(token_id)), search.num_held


def feed_banned(search: BannedStrings, token_id: int) -> tuple[Any, ...]:
    is_special = byte_tokenizer().is_special(token_id)
    return search.feed(byte_tokenizer().token_bytes(token_id), is_special=is_special), search.num_held


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any, int], Any]]] = {
    "characters": (lambda: Detokenizer(byte_tokenizer()), Detokenizer.fork, Detokenizer.push),
    "stops": (lambda: StopStrings(STRINGS), copy, feed),
    "banned": (lambda: BannedStrings(STRINGS), BannedStrings.fork, feed_banned),
    "text": (lambda: Detokenizer(byte_tokenizer(), STRINGS[:1], banned=STRINGS[1:]), Detokenizer.fork, push_text),
    "loop": (lambda: LoopDetector(window=5, repetitions=2), copy, LoopDetector.push),
}


@pytest.mark.parametrize("kind", KINDS)
@given(operations=FORKS)
def test_every_fork_gives_the_output_of_a_fresh_one(kind: str, operations: list[tuple[int, int | None]]):
    make, fork, push = KINDS[kind]
    forks: list[tuple[Any, list[int]]] = [(make(), [])]
    for number, token_id in operations:
        one, tokens = forks[number % len(forks)]
        if token_id is None:
            forks.append((fork(one), [*tokens]))
            continue
        tokens.append(token_id)
        fresh = make()
        assert push(one, token_id) == [push(fresh, earlier) for earlier in tokens][-1]


CUTS = st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 2), max_size=6)), max_size=12)  # taken, then added


@given(CUTS)
async def test_the_lookup_index_forgets_tokens_taken_back(cuts: list[tuple[int, list[int]]]):
    index, sequence = ContextIndex(), make_sequence(make_request([9]))
    for num_taken, added in cuts:
        del sequence.tokens[max(1, len(sequence.tokens) - num_taken) :]
        index.follow(sequence)
        sequence.text.tokens += added
        index.follow(sequence)
        fresh = SuffixAutomaton()
        for token_id in sequence.tokens:
            fresh.append(token_id)
        assert index.match(sequence) == fresh.match_length


@given(st.integers(0, 8), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12))
def test_a_chain_in_a_grammar_may_be_cut_anywhere(first: int, cuts: list[tuple[int, int]]):
    text = b"(1+((ab minus 22)+c))"
    grammar = compiled("lark", byte_tokenizer(), VOCAB_SIZE)
    matcher = RewindableMatcher(grammar.matcher(stop_ids=[END]))
    length = first
    for num_cut, num_added in cuts:
        matcher.cut(max(0, length - num_cut))
        length = min(len(text), max(0, length - num_cut) + num_added)
        fresh = grammar.matcher(stop_ids=[END])
        fresh.advance(text[:length])
        mask = matcher.mask([*text[:length]], num_settled=max(0, length - num_cut))
        assert (mask == fresh.mask()).all()
        assert not fresh.is_rejected
