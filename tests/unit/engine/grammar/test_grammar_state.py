"""GrammarState: the allowed tokens are a pure function of the tokens so far, whatever was predicted or taken back."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from llguidance import LLMatcher, LLParserLimits

from services.engine.grammar.grammar import Grammar
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.grammar.state import GrammarState
from services.engine.text.tokenizer import Tokenizer
from tests.harness.grammar.grammars import SOURCES, allowed, compiled, compiler, random_walk
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer

DEMO = Tokenizer.from_folder(Path(__file__).parents[4] / "models" / "demo" / "target")
DEMO_END = 0
DEMO_BYTES = [DEMO.token_bytes(token_id) for token_id in range(DEMO.vocab_size)]
PADDED = DEMO.vocab_size + 8  # as a model's vocabulary may be; no full word of a mask


def begin(name: str) -> GrammarState:
    return compiled(name, DEMO, PADDED).begin(stop_ids=[DEMO_END])


def byte_state(kind: GrammarKind, *texts: str, stop_ids=(END,)) -> GrammarState:
    return compiler(byte_tokenizer(), VOCAB_SIZE).compile(GrammarSource(kind, texts)).begin(stop_ids=stop_ids)


def next_bytes(state: GrammarState) -> list[int]:
    return allowed(state.masks()[0], VOCAB_SIZE)


@pytest.mark.parametrize("name", SOURCES)
def test_masks_depend_on_the_tokens_alone(name):
    for seed in range(2):
        rng = random.Random(seed)
        state = begin(name)
        tokens, masks = random_walk(state, rng, PADDED, stop_id=DEMO_END, length=40)
        state, kept = begin(name), 0
        for _ in range(12):
            random_ids = rng.choices(range(PADDED), k=3)
            state.num_allowed(random_ids)
            state.masks(random_ids)
            before, start = state.snapshot(), kept
            random_walk(state, rng, PADDED, stop_id=DEMO_END, length=6)
            state = before.snapshot()
            state.restore(tokens[:start])
            kept = rng.randint(kept, len(tokens))
            state.advance(tokens[start:kept])
            assert (state.masks() == masks[kept]).all()
            assert (before.masks() == masks[start]).all()
        received = compiled(name, DEMO, PADDED).begin(tokens, stop_ids=[DEMO_END])
        assert (received.masks() == masks[-1]).all()


def test_with_prefers_end_a_stop_is_forced_as_soon_as_allowed():
    source = GrammarSource(GrammarKind.REGEX, ("a{2,9}",), prefers_end=True)
    state = compiler(byte_tokenizer(), VOCAB_SIZE).compile(source).begin(stop_ids=[END])
    behind = state.masks([ord("a"), ord("a"), ord("a")])
    wanted = [[ord("a")], [ord("a")], [END], [END]]
    assert [allowed(mask, VOCAB_SIZE) for mask in behind] == wanted
    endless = compiler(byte_tokenizer(), VOCAB_SIZE).compile(source).begin(stop_ids=[])
    endless.advance([ord("a")] * 3)
    assert next_bytes(endless) == [ord("a")], "there is nothing to prefer"


@pytest.mark.parametrize("name", SOURCES)
def test_the_mask_after_predictions_is_that_of_the_state_there(name):
    for seed in range(4):
        rng = random.Random(seed)
        tokens, masks = random_walk(begin(name), rng, PADDED, stop_id=DEMO_END, length=24)
        start = rng.randint(0, len(tokens))
        state = begin(name)
        state.advance(tokens[:start])
        assert state.num_allowed(tokens[start:]) == len(tokens) - start
        assert (state.masks(tokens[start:]) == np.stack(masks[start:])).all()
        assert state.num_followed == start
        assert (state.masks() == masks[start]).all()


@pytest.mark.parametrize("name", SOURCES)
def test_allowed_tokens_can_follow_and_special_ids_never(name):
    rng = random.Random(3)
    tokens, masks = random_walk(begin(name), rng, PADDED, stop_id=DEMO_END, length=24)
    state = compiled(name, DEMO, PADDED).begin(stop_ids=[])
    for token_id, mask in zip(tokens, masks, strict=False):
        ids = [i for i in allowed(mask, PADDED) if i != DEMO_END]
        assert all(DEMO.token_bytes(i) and not DEMO.is_special(i) for i in ids)
        assert all(state.num_allowed([i]) == 1 for i in rng.sample(ids, min(len(ids), 20)))
        state.advance([token_id])
        assert not state.is_rejected


def test_a_stop_is_allowed_at_an_end_and_alone_where_it_must_end():
    state = byte_state(GrammarKind.REGEX, "ab?")
    assert next_bytes(state) == [*b"a"]
    state.advance(b"a")
    assert next_bytes(state) == [*b"b", END]
    state.advance(b"b")
    assert next_bytes(state) == [END]


def test_an_ordinary_stop_token_is_allowed_only_at_an_end():
    state = byte_state(GrammarKind.REGEX, "a!b!?", stop_ids=[ord("!")])
    state.advance(b"a")
    assert next_bytes(state) == []
    state = byte_state(GrammarKind.REGEX, "ab!?", stop_ids=[ord("!")])
    state.advance(b"a")
    assert next_bytes(state) == [*b"b"]
    state.advance(b"b")
    assert next_bytes(state) == [*b"!"]


def test_without_stops_nothing_is_allowed_after_a_complete_text():
    state = byte_state(GrammarKind.CHOICE, "a", "b", stop_ids=[])
    state.advance(b"a")
    assert next_bytes(state) == []


@pytest.mark.parametrize(
    ("predictions", "count"), [(b"", 0), (b"bab", 3), (b"bax", 2), (b"x", 0), ([ord("b"), END, ord("a")], 1)]
)
def test_predictions_are_allowed_until_forbidden_or_ended(predictions, count):
    state = byte_state(GrammarKind.REGEX, "(ab)*a?")
    state.advance(b"a")
    assert state.num_allowed(predictions) == count


def test_nothing_is_allowed_after_a_forbidden_prediction():
    state = byte_state(GrammarKind.REGEX, "[ab]*")
    masks = state.masks(b"axb")
    assert [bool(allowed(mask, VOCAB_SIZE)) for mask in masks] == [True, True, False, False]
    assert allowed(masks[1], VOCAB_SIZE) == [*b"ab", END]


def test_after_a_forbidden_token_only_an_earlier_state_continues():
    state = byte_state(GrammarKind.REGEX, "[ab]*c")
    state.advance(b"ab")
    before = state.snapshot()
    state.advance(b"xab")
    assert (state.num_followed, state.is_rejected, next_bytes(state), state.num_allowed(b"a")) == (2, True, [], 0)
    before.restore(b"ab")
    assert (before.num_followed, before.is_rejected, next_bytes(before)) == (2, False, [*b"abc"])
    before.advance(b"b")
    assert (before.num_followed, next_bytes(before)) == (3, [*b"abc"])


def test_the_mask_after_a_prediction_is_not_that_of_a_wrong_one():
    """The library caches the mask after comma and space, and would take it for the one after bracket and space."""
    items = {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2}
    schema = {"type": "object", "properties": {"t": items}, "required": ["t"], "additionalProperties": False}
    state = byte_state(GrammarKind.JSON_SCHEMA, json.dumps(schema))
    state.advance(b'{"t":["p"')
    assert ord('"') in allowed(state.masks(b", ")[-1], VOCAB_SIZE)
    state.advance(b"]")
    behind_bracket = allowed(state.masks(b" ")[-1], VOCAB_SIZE)
    state.advance(b" ")
    assert behind_bracket == next_bytes(state) == sorted(b"\t\n\r }")


def test_tokens_received_at_once_or_drawn_singly_have_one_mask():
    """The library forces bytes where it makes a mask, which matters to where `max_tokens` ends."""
    source = GrammarSource(GrammarKind.LARK, ('start: t "x"\nt[max_tokens=3]: /a\\d\\dé\\d/\n',))
    drawn, received = (compiler(DEMO, PADDED).compile(source).begin(stop_ids=[DEMO_END]) for _ in range(2))
    tokens = [DEMO_BYTES.index(token) for token in (b"a", b"21", b"\xc3")]
    for token_id in tokens:
        drawn.masks()
        drawn.advance([token_id])
    received.advance(tokens)
    assert (received.masks() == drawn.masks()).all()


# The number of states in which these can be read doubles with each letter after an "a", or with each that is read.
COSTLY = {
    "lexer": (GrammarSource(GrammarKind.REGEX, ("[ab]*a[ab]{12}",)), {"max_lexer_states": 200}),
    "parser": (GrammarSource(GrammarKind.LARK, ('start: start start | "a" | "b"\n',)), {"max_items_in_row": 24}),
}


def costly_grammar(name: str) -> Grammar:
    source, limits = COSTLY[name]
    tokenizer = compiler(byte_tokenizer(), VOCAB_SIZE)._tokenizer

    def read() -> LLMatcher:
        return LLMatcher(
            tokenizer,
            source.serialized(byte_tokenizer(), lambda *_: True),
            log_level=0,
            limits=LLParserLimits(**limits),
        )

    return Grammar(
        source, read, compiler(byte_tokenizer(), VOCAB_SIZE)._threads, vocab_size=VOCAB_SIZE, looks_ahead=True
    )


def follow_to_the_end(state: GrammarState, text: bytes) -> int:
    """How many tokens of the text can be followed before that is too costly."""
    for count, token_id in enumerate(text):
        if not next_bytes(state):
            return count
        state.advance([token_id])
    raise AssertionError("nothing was too costly")


@pytest.mark.parametrize("name", COSTLY)
def test_a_text_costs_nothing_of_one_that_was_taken_back(name):
    text, other = (bytes(random.Random(seed).choices(b"ab", k=2000)) for seed in (1, 2))
    grammar = costly_grammar(name)
    count = follow_to_the_end(grammar.begin(stop_ids=[END]), text)
    state = grammar.begin(stop_ids=[END])
    start = state.snapshot()
    follow_to_the_end(state, other)
    start.restore(b"")
    assert follow_to_the_end(start, text) == count


@pytest.mark.parametrize("name", COSTLY)
def test_the_cost_of_one_text_does_not_end_another(name):
    text = bytes(random.Random(1).choices(b"ab", k=2000))
    grammar = costly_grammar(name)
    count = follow_to_the_end(grammar.begin(stop_ids=[END]), text)
    assert count > 3
    state = grammar.begin(stop_ids=[END])
    others = bytes(random.Random(2).choices(b"ab", k=2000))
    rows = [bool(mask.any()) for mask in state.masks(others)]
    assert rows[0]
    assert not rows[-1]
    assert state.num_allowed(others) < len(others)
    assert follow_to_the_end(state, text) == count
    assert next_bytes(state) == []
