"""TextCodec: one text for two vocabularies, in which a special token is no text."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.draft.vocabulary.retokenizer import Piece, Retokenizer
from services.draft.vocabulary.text_codec import TextCodec
from services.engine.text.tokenizer import Tokenizer
from tests.unit.merged_tokenizer import ALPHABET, END, merged_tokenizer, merges

MARK = chr(256)
texts = st.lists(st.sampled_from([*(each.decode("latin-1") for each in ALPHABET), MARK]), max_size=12).map("".join)
random = settings(derandomize=True, database=None)


def make_codec(tokenizer: Tokenizer) -> TextCodec:
    marks = {token_id: MARK for token_id in tokenizer.special_ids if tokenizer.token_bytes(token_id) == END.encode()}
    return TextCodec(Retokenizer(tokenizer, tokenizer.vocab_size), marks)


@random
@given(merges(), texts, texts)
def test_a_text_is_the_text_of_its_tokens(drawn, before, text):
    codec = make_codec(merged_tokenizer(drawn))
    pieces = codec.tokenize(text, before)
    assert "".join(codec.text(piece.token_id) for piece in pieces) == text
    assert sum(piece.num_bytes for piece in pieces) == len(text)


def test_a_special_token_is_a_mark_if_shared_and_else_its_name():
    tokenizer = merged_tokenizer(specials=[END, "<ab>"])
    codec = make_codec(tokenizer)
    end, other = sorted(tokenizer.special_ids)
    assert (codec.text(end), codec.text(other), codec.text(99)) == (MARK, "<ab>", "")
    assert codec.tokenize(f"a{MARK}") == [Piece(0, 1), Piece(end, 1)]
    assert END.encode() not in [tokenizer.token_bytes(piece.token_id) for piece in codec.tokenize(END)]


def test_a_special_token_may_have_any_id():
    tokenizer = merged_tokenizer(specials=[END])
    for token_id in (0, 1, *tokenizer.special_ids):
        codec = TextCodec(Retokenizer(tokenizer, tokenizer.vocab_size), {token_id: MARK})
        assert codec.tokenize(f"{MARK}{MARK}") == [Piece(token_id, 1)] * 2


@random
@given(merges(), texts)
def test_unfinished_text_is_spelled_without_half_characters(drawn, text):
    codec = make_codec(merged_tokenizer(drawn))
    whole = text.removesuffix("\xc3")
    assert codec.tokenize_whole(text, "ab") == codec.tokenize(whole, "ab")


def test_half_a_character_in_front_of_a_special_token_is_spelled():
    codec = make_codec(merged_tokenizer([(b"\xc3", b"\xa9")]))
    end, character, half = len(ALPHABET) + 1, len(ALPHABET), ALPHABET.index(b"\xc3")
    for text, expected in [
        ("a\xc3", [0]),
        ("a\xc3\xa9", [0, character]),
        (f"a\xc3{MARK}", [0, half, end]),
        (f"\xc3\xa9{MARK}\xc3", [character, end]),
    ]:
        assert [piece.token_id for piece in codec.tokenize_whole(text)] == expected
