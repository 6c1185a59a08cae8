"""GrammarCompiler: what cannot be followed is refused with the reason; of a choice each text is, and no other."""

import random

import pytest

from services.engine.grammar.compiler import GrammarError, GrammarVocabulary
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.text.tokenizer import Tokenizer
from tests.harness.grammar.grammars import SOURCES, compiled, compiler, random_walk
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer

BAD = {
    "no json": (GrammarKind.JSON_SCHEMA, "{", "Expecting property name"),
    "deep json": (GrammarKind.JSON_SCHEMA, "[" * 50_000, "nested too deeply"),
    "a json list": (GrammarKind.JSON_SCHEMA, "[]", "must be an object or boolean"),
    "an unknown type": (GrammarKind.JSON_SCHEMA, '{"type": "colour"}', "colour"),
    "a schema from elsewhere": (GrammarKind.JSON_SCHEMA, '{"$ref": "http://x/y"}', "does not fetch"),
    "a schema for nothing": (GrammarKind.JSON_SCHEMA, "false", "Unsatisfiable"),
    "an endless schema": (GrammarKind.JSON_SCHEMA, '{"$ref": "#"}', "no text follows it"),
    "an open group": (GrammarKind.REGEX, "a(", "unclosed group"),
    "a look-ahead": (GrammarKind.REGEX, "(?=a)b", "look-around"),
    "deep groups": (GrammarKind.REGEX, "(" * 30_000, "at 1"),
    "an unknown rule": (GrammarKind.LARK, "start: x", "unknown name"),
    "deep rules": (GrammarKind.LARK, "start: " + "(" * 30_000, "too deeply nested"),
}


@pytest.mark.parametrize(("kind", "text", "message"), BAD.values(), ids=BAD)
def test_the_reason_of_a_refusal_is_short(kind, text, message):
    with pytest.raises(GrammarError, match=message) as caught:
        compiler(byte_tokenizer(), VOCAB_SIZE).compile(GrammarSource(kind, (text,)))
    assert len(str(caught.value)) <= 500


def test_the_states_of_a_grammar_are_independent():
    grammar = compiled("regex", byte_tokenizer(), VOCAB_SIZE)
    first, second, third = (grammar.begin(stop_ids=[END]) for _ in range(3))
    first.advance(b"ab")
    assert (first.num_followed, second.num_followed) == (2, 0)
    assert not (first.masks() == second.masks()).all()
    assert (second.masks(b"ab") == third.masks(b"ab")).all()


def test_without_look_ahead_only_the_next_token_has_a_mask():
    grammar = compiler(byte_tokenizer(), VOCAB_SIZE).compile(SOURCES["regex"], looks_ahead=False)
    state = grammar.begin(stop_ids=[END])
    assert state.num_allowed(b"ab") == 0
    assert [bool(mask.any()) for mask in state.masks(b"ab")] == [True, False, False]


def test_each_text_of_a_choice_can_be_written_and_no_other():
    grammar, texts = compiled("choice", byte_tokenizer(), VOCAB_SIZE), SOURCES["choice"].texts
    written = set()
    for seed in range(60):
        tokens, _ = random_walk(grammar.begin(stop_ids=[END]), random.Random(seed), VOCAB_SIZE, stop_id=END, length=100)
        written.add(bytes(tokens).decode())
    assert written == set(texts)


class PrefixingTokenizer(Tokenizer):
    """Puts a space before every text, as some tokenizers do."""

    def encode(self, text, **options):
        return super().encode(" " + text, **options)


def test_forced_text_is_cut_into_bytes_where_encoding_changes_it():
    vocabulary = GrammarVocabulary(byte_tokenizer(), vocab_size=VOCAB_SIZE)
    assert vocabulary("true") == [*b"true"]
    description = byte_tokenizer().description
    prefixing = compiler(PrefixingTokenizer(description), VOCAB_SIZE)
    state = prefixing.compile(GrammarSource(GrammarKind.CHOICE, ("true",))).begin(stop_ids=[END])
    tokens, _ = random_walk(state, random.Random(0), VOCAB_SIZE, stop_id=END, length=10)
    assert bytes(tokens) == b"true"


class CountingTokenizer(Tokenizer):
    """Knows how long the longest text was that it had to cut."""

    longest = 0

    def encode(self, text, **options):
        self.longest = max(self.longest, len(text))
        return super().encode(text, **options)


def test_only_the_start_of_a_long_forced_text_is_tokenized():
    tokenizer = CountingTokenizer(byte_tokenizer().description)
    text = "".join(random.Random(0).choices("abc ", k=60_000))
    grammar = compiler(tokenizer, VOCAB_SIZE).compile(GrammarSource(GrammarKind.CHOICE, (text,)))
    state = grammar.begin(stop_ids=[END])
    tokens, _ = random_walk(state, random.Random(0), VOCAB_SIZE, stop_id=END, length=50)
    assert bytes(tokens).decode() == text[:50]
    assert 0 < tokenizer.longest < 4096


def test_an_ambiguous_text_ends_before_its_masks_take_long():
    """Counts decide where, so that it is the same place on every machine."""
    grammar = compiler(byte_tokenizer(), VOCAB_SIZE).compile(
        GrammarSource(GrammarKind.LARK, ('start: x\nx: x x | x x x | "a" | "b" |\n',))
    )
    lengths = set()
    for _ in range(2):
        state, length = grammar.begin(stop_ids=[END]), 0
        while state.masks()[0].any():
            state.advance(b"a")
            length += 1
        lengths.add(length)
    (length,) = lengths
    assert 50 < length < 150


def allows(schema: str, text: str) -> bool:
    """Whether a whole text follows a schema."""
    source = GrammarSource(GrammarKind.JSON_SCHEMA, (schema,))
    state = compiler(byte_tokenizer(), VOCAB_SIZE).compile(source).begin(stop_ids=[END])
    state.advance(text.encode())
    return not state.is_rejected and state.may_end


@pytest.mark.parametrize("schema", ["{}", ' {"type": ["object", "array"]}', '{"maximum": 1.50}', "true"])
def test_white_space_outside_of_strings_is_bounded(schema):
    spaces = " \n\t\r " * 4
    assert allows(schema, f'{{{spaces}"a"{spaces}:{spaces}[{spaces}1{spaces},{spaces}"{" " * 99}"]}}')
    for text in (f'{{{spaces} "a":1}}', f'{{"a"{spaces} :1}}', f'{{"a":{spaces} 1}}', f'{{"a":[1{spaces} ]}}'):
        assert not allows(schema, text)


def test_a_schema_s_own_settings_replace_the_bound():
    assert allows('{"x-guidance": {"whitespace_flexible": true}}', '{"a":' + " " * 99 + "1}")
    assert not allows('{"x-guidance": {"whitespace_flexible": false}}', '{"a": 1}')
