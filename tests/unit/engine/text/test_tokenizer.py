"""Text becomes ids, and ids become the same bytes again."""

import itertools
import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.text.tokenizer import Tokenizer
from services.target.output.detokenizer import Detokenizer
from tests.harness.models.checkpoints import SPECIAL_TOKENS, VOCAB_SIZE, byte_level_tokenizer

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
BEGIN, END, USER, ASSISTANT = range(4)


def sentencepiece_like(decoder: decoders.Decoder) -> Tokenizer:
    """A vocabulary as Llama 2 and Gemma have it: marks for spaces, and single bytes for what is not in it."""
    pieces = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "ab", "▁ab", "▁▁", "é"]
    merges = [("▁", "a"), ("a", "b"), ("▁a", "b"), ("▁", "▁")]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    built = tokenizers.Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    built.normalizer = normalizers.Replace(" ", "▁")
    built.decoder = decoder
    built.add_special_tokens(["<s>"])
    built.add_tokens(["x▁y", "▁▁▁▁"])
    return Tokenizer(built.to_str())


GEMMA_DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
LLAMA2_DECODER = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)


# Bytes


@given(st.text())
def test_byte_level_ids_stand_for_the_bytes_of_the_text(text):
    ids = TOKENIZER.encode(text, add_special_tokens=False, parse_special=False)
    assert b"".join(map(TOKENIZER.token_bytes, ids)) == text.encode()


def test_every_byte_has_a_token():
    table = {TOKENIZER.token_bytes(token_id) for token_id in range(TOKENIZER.vocab_size)}
    assert {bytes([byte]) for byte in range(256)} <= table


@pytest.mark.parametrize("decoder", [GEMMA_DECODER, LLAMA2_DECODER])
@given(text=st.text(alphabet="ab xyé漢😀\n"))
def test_sentencepiece_ids_stand_for_the_bytes_of_the_text(decoder, text):
    tokenizer = sentencepiece_like(decoder)
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()


def test_sentencepiece_byte_tokens_are_single_bytes():
    tokenizer = sentencepiece_like(GEMMA_DECODER)
    assert tokenizer.encode("漢") == [2 + byte for byte in "漢".encode()]
    assert tokenizer.token_bytes(2 + 0xE6) == b"\xe6"


def test_metaspace_decoder_marks_spaces_only():
    """Without byte fallback, a token that is spelled like a byte is just that text."""
    tokenizer = sentencepiece_like(decoders.Metaspace())
    assert [tokenizer.token_bytes(i) for i in (2, 261)] == [b"<0x00>", b" a"]


def test_added_tokens_stand_for_their_literal_text():
    assert [TOKENIZER.token_bytes(i) for i in range(4)] == [token.encode() for token in SPECIAL_TOKENS]


def test_added_byte_level_tokens_are_spelled_literally():
    built = tokenizers.Tokenizer.from_str(byte_level_tokenizer().to_str())
    built.add_tokens(["Ġcafé"])
    assert Tokenizer(built.to_str()).token_bytes(built.token_to_id("Ġcafé")) == "Ġcafé".encode()


def test_added_sentencepiece_tokens_are_spelled_with_marks():
    """Gemma's runs of spaces are such tokens."""
    tokenizer = sentencepiece_like(GEMMA_DECODER)
    ids = tokenizer.encode("x y    a", add_special_tokens=False)
    assert [tokenizer.token_bytes(token_id) for token_id in ids] == [b"x y", b"    ", b"a"]


def test_padding_ids_stand_for_nothing():
    assert TOKENIZER.vocab_size == 500 < VOCAB_SIZE
    assert TOKENIZER.token_bytes(500) == TOKENIZER.token_bytes(VOCAB_SIZE - 1) == b""


def test_token_text_of_a_part_of_a_character():
    part = next(i for i in range(TOKENIZER.vocab_size) if TOKENIZER.token_bytes(i) == b"\xf0")
    assert TOKENIZER.token_text(part) == "\ufffd"


# Special tokens


def test_begin_token_is_added_if_asked():
    plain = TOKENIZER.encode("def f", add_special_tokens=False)
    assert TOKENIZER.encode("def f") == [BEGIN, *plain]


def test_special_tokens_in_text_are_parsed_if_asked():
    text = "a<|end|>b"
    assert END in TOKENIZER.encode(text)
    literal = TOKENIZER.encode(text, add_special_tokens=False, parse_special=False)
    assert not TOKENIZER.special_ids & {*literal}
    assert b"".join(map(TOKENIZER.token_bytes, literal)) == text.encode()
    assert END in TOKENIZER.encode(text), "one way of encoding changed the other"


@pytest.mark.parametrize("tokenizer", [TOKENIZER, sentencepiece_like(GEMMA_DECODER)], ids=["bytes", "pieces"])
def test_the_literal_encoder_differs_in_control_tokens_only(tokenizer):
    """The two share what is large, and differ in what they do with control tokens only."""
    with_it, without = tokenizer._encoder, tokenizer._literal_encoder
    assert json.loads(without.to_str()) == json.loads(with_it.to_str())
    assert (with_it.encode_special_tokens, without.encode_special_tokens) == (False, True)


def test_special_ids():
    assert TOKENIZER.special_ids == {BEGIN, END, USER, ASSISTANT}
    assert TOKENIZER.is_special(END)
    assert not TOKENIZER.is_special(100)


def test_truncation_and_padding_of_the_file_are_ignored():
    built = tokenizers.Tokenizer.from_str(byte_level_tokenizer().to_str())
    built.enable_truncation(3)
    built.enable_padding(length=7)
    assert Tokenizer(built.to_str()).encode("a b c d e f") == TOKENIZER.encode("a b c d e f")


# Fingerprint


def test_fingerprint_depends_on_the_vocabulary_alone():
    built = tokenizers.Tokenizer.from_str(byte_level_tokenizer().to_str())
    assert Tokenizer(built.to_str()).fingerprint() == TOKENIZER.fingerprint()
    built.add_tokens(["one more"])
    assert Tokenizer(built.to_str()).fingerprint() != TOKENIZER.fingerprint()


def test_fingerprint_sees_two_ids_exchanged():
    fields = json.loads(byte_level_tokenizer().to_str())
    vocabulary = fields["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    assert Tokenizer(json.dumps(fields)).fingerprint() != TOKENIZER.fingerprint()


# Bad files


def test_missing_tokenizer(tmp_path):
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: no such file"):
        Tokenizer.from_folder(tmp_path)


def test_broken_tokenizer():
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: is not a usable tokenizer"):
        Tokenizer("{}")


@pytest.mark.parametrize(
    ("decoder", "name"),
    [
        (decoders.WordPiece(), "WordPiece"),
        (decoders.Sequence([decoders.Fuse(), decoders.CTC()]), "CTC"),
        (decoders.Sequence([decoders.Replace(tokenizers.Regex("▁"), " ")]), "Replace"),
    ],
)
def test_unsupported_decoder(decoder, name):
    with pytest.raises(CheckpointError, match=f"decoder '{name}' is not supported; allowed are ByteLevel"):
        sentencepiece_like(decoder)


def test_missing_decoder():
    fields = json.loads(byte_level_tokenizer().to_str())
    with pytest.raises(CheckpointError, match="decoder None is not supported"):
        Tokenizer(json.dumps(fields | {"decoder": None}))


# Detokenizer


def shown(detokenizer: Detokenizer, token_id: int) -> str:
    text, _ = detokenizer.push(token_id)
    return text


@given(st.text())
def test_pieces_of_text_are_whole_characters_and_add_up(text):
    detokenizer = Detokenizer(TOKENIZER)
    pieces = [shown(detokenizer, i) for i in TOKENIZER.encode(text, add_special_tokens=False, parse_special=False)]
    assert "".join(pieces) == text
    assert detokenizer.finish() == ""


@given(st.lists(st.integers(4, VOCAB_SIZE - 1)))
def test_any_ids_decode_as_their_bytes_do(ids):
    detokenizer = Detokenizer(TOKENIZER)
    text = "".join(shown(detokenizer, i) for i in ids) + detokenizer.finish()
    assert text == b"".join(map(TOKENIZER.token_bytes, ids)).decode(errors="replace")


def test_an_unfinished_character_is_shown_at_the_end():
    detokenizer = Detokenizer(TOKENIZER)
    ids = TOKENIZER.encode("漢", add_special_tokens=False)
    assert [shown(detokenizer, token_id) for token_id in ids[:-1]] == ["", ""]
    assert detokenizer.finish() == "\ufffd"


def test_special_tokens_are_hidden_unless_asked():
    ids = TOKENIZER.encode("a<|end|>b", add_special_tokens=False)
    hiding, showing = Detokenizer(TOKENIZER), Detokenizer(TOKENIZER, show_special=True)
    assert "".join(shown(hiding, i) for i in ids) == "ab"
    assert "".join(shown(showing, i) for i in ids) == "a<|end|>b"


# What no vocabulary has


def with_added(*tokens: tuple[str, int]) -> str:
    """The description of the byte-level tokenizer, with more tokens in its table."""
    description = json.loads(byte_level_tokenizer().to_str())
    description["model"]["vocab"] |= dict(tokens)
    return json.dumps(description)


@pytest.mark.parametrize("token_id", [2**22, 2**31, 2**32 - 1])
def test_an_id_beyond_any_vocabulary_is_refused(token_id):
    message = rf"tokenizer\.json: token 'far' has id {token_id}; it must be from 0 to {2**22 - 1}"
    with pytest.raises(CheckpointError, match=message):
        Tokenizer(with_added(("far", token_id)))


def test_a_token_that_stands_for_too_many_bytes_is_refused():
    Tokenizer(with_added(("x" * 1024, 501)))
    with pytest.raises(CheckpointError, match="stands for too many bytes; allowed are at most 1024 for each token"):
        Tokenizer(with_added(("x" * 1025, 501)))


@pytest.mark.parametrize("marks", [["", "a"], "abcdefgh"])
def test_a_decoder_that_makes_texts_longer_and_longer_is_refused(marks):
    pairs = itertools.pairwise(marks)
    steps = [{"type": "Replace", "pattern": {"String": mark}, "content": other * 60} for mark, other in pairs]
    description = json.loads(with_added()) | {"decoder": {"type": "Sequence", "decoders": steps}}
    with pytest.raises(CheckpointError, match=r"decoder 'Replace' is not supported|stands for too many bytes"):
        Tokenizer(json.dumps(description))


def test_a_tokenizer_that_cannot_encode_is_refused(tmp_path):
    description = json.loads(with_added())
    piece = {"SpecialToken": {"id": "<|begin|>", "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": [piece, {"Sequence": {"id": "A", "type_id": 0}}], "pair": []}
    special = {"<|begin|>": {"id": "<|begin|>", "ids": [2**31], "tokens": ["<|begin|>"]}}
    description["post_processor"] = {**description["post_processor"], **template, "special_tokens": special}
    (tmp_path / "tokenizer.json").write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match=rf"tokenizer\.json: encodes .* with id {2**31}; its vocabulary has ids"):
        Tokenizer.from_folder(tmp_path)
