"""GrammarState: what may be drawn is a pure function of the tokens, whatever was looked at or taken back."""

import random
from pathlib import Path

import numpy as np
import pytest
from llguidance import LLMatcher, LLParserLimits

from services.engine.grammar import Grammar
from services.engine.grammar_source import GrammarKind, GrammarSource
from services.engine.grammar_state import GrammarState
from services.engine.tokenizer import Tokenizer
from tests.grammars import SOURCES, allowed, compiled, compiler, random_walk
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer

DEMO = Tokenizer.from_folder(Path(__file__).parents[2] / "models" / "demo" / "target")
DEMO_END = 0
PADDED = DEMO.vocab_size + 8  # as a model's vocabulary may be; no full word of a mask


def begin(name: str) -> GrammarState:
    return compiled(name, DEMO, PADDED).begin(stop_ids=[DEMO_END])


def byte_state(kind: GrammarKind, *texts: str, stop_ids=(END,)) -> GrammarState:
    return compiler(byte_tokenizer(), VOCAB_SIZE).compile(GrammarSource(kind, texts)).begin(stop_ids=stop_ids)


def next_bytes(state: GrammarState) -> list[int]:
    return allowed(state.masks()[0], VOCAB_SIZE)


@pytest.mark.parametrize("name", SOURCES)
def test_masks_depend_on_the_tokens_alone(name):
    for seed in range(8):
        chance = random.Random(seed)
        state = begin(name)
        tokens, masks = random_walk(state, chance, PADDED, stop_id=DEMO_END, length=40)
        for _ in range(12):
            kept = chance.randint(0, len(tokens))
            state.truncate(kept)
            assert state.num_tokens == kept
            assert (state.masks() == masks[kept]).all()
            random_walk(state, chance, PADDED, stop_id=DEMO_END, length=6)
            state.truncate(kept)
            random_ids = chance.choices(range(PADDED), k=3)
            state.num_allowed(random_ids)
            state.masks(random_ids)
            state.advance(tokens[kept:])
            assert (state.masks() == masks[-1]).all()
        fresh = begin(name)
        fresh.advance(tokens)
        assert (fresh.masks() == masks[-1]).all()


@pytest.mark.parametrize("name", SOURCES)
def test_a_row_behind_predictions_is_the_state_behind_them(name):
    for seed in range(8):
        chance = random.Random(seed)
        tokens, masks = random_walk(begin(name), chance, PADDED, stop_id=DEMO_END, length=24)
        start = chance.randint(0, len(tokens))
        state = begin(name)
        state.advance(tokens[:start])
        assert state.num_allowed(tokens[start:]) == len(tokens) - start
        assert (state.masks(tokens[start:]) == np.stack(masks[start:])).all()
        assert state.num_tokens == start
        assert (state.masks() == masks[start]).all()


@pytest.mark.parametrize("name", SOURCES)
def test_what_a_mask_allows_can_be_followed_and_special_and_padding_ids_never(name):
    chance = random.Random(3)
    tokens, masks = random_walk(begin(name), chance, PADDED, stop_id=DEMO_END, length=24)
    state = compiled(name, DEMO, PADDED).begin(stop_ids=[])
    for token_id, mask in zip(tokens, masks, strict=False):
        ids = [i for i in allowed(mask, PADDED) if i != DEMO_END]
        assert all(DEMO.token_bytes(i) and not DEMO.is_special(i) for i in ids)
        assert all(state.num_allowed([i]) == 1 for i in chance.sample(ids, min(len(ids), 20)))
        state.advance([token_id])
        assert not state.has_strayed


def test_a_stop_may_be_drawn_where_the_text_may_end_and_is_all_that_is_left_where_it_must():
    state = byte_state(GrammarKind.REGEX, "ab?")
    assert next_bytes(state) == [*b"a"]
    state.advance(b"a")
    assert next_bytes(state) == [*b"b", END]
    state.advance(b"b")
    assert next_bytes(state) == [END]


def test_an_ordinary_token_that_stops_is_drawn_only_where_the_text_may_end():
    state = byte_state(GrammarKind.REGEX, "a!b!?", stop_ids=[ord("!")])
    state.advance(b"a")
    assert next_bytes(state) == []
    state = byte_state(GrammarKind.REGEX, "ab!?", stop_ids=[ord("!")])
    state.advance(b"a")
    assert next_bytes(state) == [*b"b"]
    state.advance(b"b")
    assert next_bytes(state) == [*b"!"]


def test_without_stops_nothing_may_be_drawn_behind_a_whole_text():
    state = byte_state(GrammarKind.CHOICE, "a", "b", stop_ids=[])
    state.advance(b"a")
    assert next_bytes(state) == []


@pytest.mark.parametrize(
    ("predictions", "count"), [(b"", 0), (b"bab", 3), (b"bax", 2), (b"x", 0), ([ord("b"), END, ord("a")], 1)]
)
def test_predictions_are_allowed_up_to_what_is_forbidden_or_ends_the_text(predictions, count):
    state = byte_state(GrammarKind.REGEX, "(ab)*a?")
    state.advance(b"a")
    assert state.num_allowed(predictions) == count


def test_nothing_may_be_drawn_behind_a_forbidden_prediction():
    state = byte_state(GrammarKind.REGEX, "[ab]*")
    masks = state.masks(b"axb")
    assert [bool(allowed(mask, VOCAB_SIZE)) for mask in masks] == [True, True, False, False]
    assert allowed(masks[1], VOCAB_SIZE) == [*b"ab", END]


def test_a_text_that_strays_comes_back_when_that_is_taken_back():
    state = byte_state(GrammarKind.REGEX, "[ab]*c")
    state.advance(b"abxa")
    assert (state.num_tokens, state.has_strayed, next_bytes(state), state.num_allowed(b"a")) == (4, True, [], 0)
    state.advance(b"b")
    state.truncate(3)
    assert (state.num_tokens, state.has_strayed, next_bytes(state)) == (3, True, [])
    state.truncate(2)
    assert (state.num_tokens, state.has_strayed, next_bytes(state)) == (2, False, [*b"abc"])
    state.advance(b"b")
    state.truncate(0)
    assert (state.num_tokens, next_bytes(state)) == (0, [*b"abc"])


# The number of states in which these can be read doubles with each letter behind an "a", or with each that is read.
COSTLY = {
    "lexer": (GrammarSource(GrammarKind.REGEX, ("[ab]*a[ab]{12}",)), {"max_lexer_states": 200}),
    "parser": (GrammarSource(GrammarKind.LARK, ('start: start start | "a" | "b"\n',)), {"max_items_in_row": 24}),
}


def costly_grammar(name: str) -> Grammar:
    source, limits = COSTLY[name]
    tokenizer = compiler(byte_tokenizer(), VOCAB_SIZE)._tokenizer

    def read() -> LLMatcher:
        return LLMatcher(tokenizer, source.serialized(), log_level=0, limits=LLParserLimits(**limits))

    return Grammar(source, read(), read, vocab_size=VOCAB_SIZE, looks_ahead=True)


def follow_to_the_end(state: GrammarState, text: bytes) -> int:
    """How many tokens of the text can be followed before that is too costly."""
    for count, token_id in enumerate(text):
        if not next_bytes(state):
            return count
        state.advance([token_id])
    raise AssertionError("nothing was too costly")


@pytest.mark.parametrize("name", COSTLY)
def test_what_is_too_costly_for_one_text_or_prediction_is_no_matter_of_another(name):
    text = bytes(random.Random(1).choices(b"ab", k=2000))
    grammar = costly_grammar(name)
    count = follow_to_the_end(grammar.begin(stop_ids=[END]), text)
    assert count > 3
    state = grammar.begin(stop_ids=[END])
    others = bytes(random.Random(2).choices(b"ab", k=2000))
    rows = [bool(mask.any()) for mask in state.masks(others)]
    assert rows[0]
    assert not rows[-1]
    assert state.num_allowed(others) == 0, "the scout should be broken"
    assert follow_to_the_end(state, text) == count
    assert next_bytes(state) == []
