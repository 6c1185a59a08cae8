"""Retokenizer: bytes are cut as the tokenizer cuts a whole text, and where it cannot, by the longest tokens."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.draft.vocabulary.retokenizer import Piece, Retokenizer
from services.engine.text.tokenizer import Tokenizer
from tests.unit.draft.vocabulary.test_vocabulary_map import make_tokenizer
from tests.unit.merged_tokenizer import ALPHABET, merged_tokenizer, merges

texts = st.text(alphabet="ab é", max_size=12).map(str.encode)
data = st.lists(st.sampled_from(ALPHABET), max_size=12).map(b"".join)
random = settings(derandomize=True, database=None)


def make_retokenizer(tokenizer: Tokenizer) -> Retokenizer:
    return Retokenizer(tokenizer, tokenizer.vocab_size)


def cut(tokenizer: Tokenizer, text: bytes) -> list[bytes]:
    """What the tokenizer itself makes of a whole text."""
    return [tokenizer.token_bytes(token_id) for token_id in tokenizer.encode(text.decode())]


def tokenized(retokenizer: Retokenizer, text: bytes, before: bytes = b"") -> list[bytes]:
    pieces = retokenizer.tokenize(text, before)
    written = [retokenizer.tokenizer.token_bytes(piece.token_id) for piece in pieces]
    assert [len(each) for each in written] == [piece.num_bytes for piece in pieces]
    return written


@random
@given(merges(), texts, texts)
def test_text_is_cut_as_the_whole_is_or_as_a_text_of_its_own(drawn, before, text):
    tokenizer = merged_tokenizer(drawn)
    whole = cut(tokenizer, before + text)
    ends = [0, *accumulate(map(len, whole))]
    expected = whole[ends.index(len(before)) :] if len(before) in ends else cut(tokenizer, text)
    assert tokenized(make_retokenizer(tokenizer), text, before) == expected


@random
@given(merges(), data, data)
def test_any_bytes_are_spelled(drawn, before, text):
    assert b"".join(tokenized(make_retokenizer(merged_tokenizer(drawn)), text, before)) == text


@random
@given(data)
def test_the_longest_token_at_each_place_is_the_last_resort(text):
    retokenizer = make_retokenizer(merged_tokenizer([(b"a", b"b"), (b"\xff", b"\xff"), (b"ab", b"a")]))
    rest = text
    for token_id, num_bytes in retokenizer.split(text):
        token = retokenizer.tokenizer.token_bytes(token_id)
        assert rest.startswith(token)
        assert len(token) == num_bytes
        longer = [each for each, _ in retokenizer.ids if rest.startswith(each) and len(each) > num_bytes]
        assert not longer
        rest = rest[num_bytes:]
    assert not rest


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (b"ab", [Piece(0, 2)]),  # "b" has no token, and counts to the one in front
        (b"ba", [Piece(0, 2)]),
        (b"abba", [Piece(0, 1), Piece(0, 3)]),
        (b"b", []),
    ],
)
def test_a_byte_without_a_token_counts_to_its_neighbour(text, pieces):
    assert make_retokenizer(merged_tokenizer(alphabet=[b"a"])).tokenize(text) == pieces


def test_a_space_that_the_tokenizer_prepends_is_left_out():
    """As SentencePiece does; the text in front takes it."""
    tokenizer = Tokenizer(
        make_tokenizer(["▁", "a", "b"]).description.replace(
            '"decoder": {"type": "ByteFallback"}',
            '"normalizer": {"type": "Prepend", "prepend": "\\u2581"}, '
            '"decoder": {"type": "Metaspace", "replacement": "\\u2581", "prepend_scheme": "always", "split": false}',
        )
    )
    retokenizer = make_retokenizer(tokenizer)
    assert tokenizer.encode("a") == [0, 1]
    assert retokenizer.tokenize(b"a", b"b") == retokenizer.tokenize(b"a") == [Piece(1, 1)]
    assert retokenizer.tokenize(b"ab", b"b") == [Piece(1, 1), Piece(2, 1)]


def test_text_never_becomes_a_special_token():
    retokenizer = make_retokenizer(make_tokenizer([*"<end>"]))
    assert [piece.token_id for piece in retokenizer.tokenize(b"<end>")] == [*range(5)]


def test_a_token_beyond_the_model_s_is_not_used():
    tokenizer = merged_tokenizer([(b"a", b"b")], specials=())
    assert tokenized(Retokenizer(tokenizer, tokenizer.vocab_size - 1), b"ab") == [b"a", b"b"]
