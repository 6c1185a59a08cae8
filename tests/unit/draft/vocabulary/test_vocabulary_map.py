"""VocabularyMap: partners have the same bytes, and other tokens are spelled with the fewest, longest tokens."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.draft.vocabulary.vocabularies import Vocabularies, Way
from services.draft.vocabulary.vocabulary_map import VocabularyMap
from services.engine.events import VocabularyMatch
from services.engine.text.tokenizer import Tokenizer

pieces = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), unique=True, max_size=12)


def make_tokenizer(tokens: list[str], *, special: str = "<end>") -> Tokenizer:
    """Pieces that stand for themselves, and a special token."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    description = {
        "added_tokens": [{"id": len(tokens), "content": special, "special": True, **flags}],
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [],
        },
        "decoder": {"type": "ByteFallback"},
    }
    return Tokenizer(json.dumps(description))


def make_map(own: list[str], target: list[str], *, enough: float = 0.0, **special: str) -> VocabularyMap:
    sizes = {"own_size": len(own) + 1, "target_size": len(target) + 1}
    return VocabularyMap(make_tokenizer(own), make_tokenizer(target, **special), **sizes, enough=enough)


@given(pieces, pieces)
def test_a_target_s_token_is_spelled_with_its_bytes(own, target):
    own = [*dict.fromkeys([*own, "a", "b", "c"])]
    way = make_map(own, target)
    for token_id, token in enumerate(target):
        assert "".join(own[own_id] for own_id in way.own_tokens(token_id)) == token


@given(pieces, pieces)
def test_partners_have_the_same_bytes_both_ways(own, target):
    way = make_map(own, target)
    for own_id, token in enumerate(own):
        partner = way.to_target(own_id)
        assert partner == (target.index(token) if token in target else -1)
        if partner >= 0:
            assert way.own_tokens(partner) == (own_id,)
            assert way.partners([partner]) == [own_id]
    assert way.num_shared == len({*own} & {*target}) + 1


@pytest.mark.parametrize(
    ("own", "token", "spelling"),
    [
        (["ab", "a", "b", "abc"], "abcab", ["abc", "ab"]),
        (["ab", "a", "bca"], "abca", ["ab", "a"]),  # greedy, and no token for "c"
        (["b"], "abc", ["b"]),
        (["x"], "abc", []),
    ],
)
def test_spellings(own, token, spelling):
    assert [own[own_id] for own_id in make_map(own, [token]).own_tokens(0)] == spelling


def test_the_last_of_tokens_with_the_same_bytes_counts():
    """As a byte token comes before the token of that character."""
    way = make_map(["<0x61>", "b", "a"], ["a", "<0x61>"])
    assert [way.to_target(own_id) for own_id in range(3)] == [-1, -1, 1]
    assert way.own_tokens(0) == way.own_tokens(1) == (2,)
    assert (way.partners([0]), way.partners([1])) == ([], [2])


def test_special_tokens_have_partners_only_of_the_same_name():
    assert make_map(["a"], ["<end>"], special="<eot>").to_target(1) == -1
    assert make_map(["a"], ["a"]).to_target(1) == 1
    assert make_map(["a"], ["a"], special="<eot>").to_target(1) == -1


def find(
    own: Tokenizer,
    others: list[Tokenizer],
    asked: Tokenizer,
    *,
    size: int,
    translates: bool = True,
    way: Way = Way.AUTO,
):
    vocabularies = Vocabularies(own, others, size=own.vocab_size, translates=translates, way=way)
    return vocabularies.find(asked.fingerprint(), size)


def test_the_same_vocabulary_is_only_mapped_where_padded():
    own = make_tokenizer(["a", "b"])
    for size, has_way in ((3, False), (0, False), (8, True), (2, True)):
        vocabulary = find(own, [], own, size=size)
        assert vocabulary.match is VocabularyMatch.SAME
        assert (vocabulary.map is not None) == has_way
    assert find(own, [], own, size=2).map.to_target(2) == -1
    assert find(own, [], own, size=8, translates=False).map is None


def test_another_vocabulary_is_translated_where_it_is_known():
    own, other = make_tokenizer(["a", "b"]), make_tokenizer(["b", "c"])
    assert find(own, [], other, size=3) is None
    assert find(own, [other], other, size=3, translates=False) is None
    for way, match in [
        (Way.INTERSECTION, VocabularyMatch.TRANSLATED),
        (Way.BYTES, VocabularyMatch.BYTES),
        (Way.AUTO, VocabularyMatch.BYTES),
    ]:
        vocabulary = find(own, [other], other, size=3, way=way)
        assert (vocabulary.match, vocabulary.num_shared) == (match, 2)


@pytest.mark.parametrize(
    ("num_shared", "num_own", "num_target", "is_enough"),
    [(9, 10, 10, True), (8, 10, 10, False), (9, 9, 10, True), (9, 10, 9, True), (9, 9, 11, False), (9, 11, 9, False)],
)
def test_vocabularies_that_share_nearly_all_ids_are_translated(num_shared, num_own, num_target, is_enough):
    """Nine tenths of the larger vocabulary; the special token, which both have, is one of them."""
    shared = [*"abcdefgh"][: num_shared - 1]
    own = make_tokenizer([*shared, *(f"own{index}" for index in range(num_own - num_shared))])
    target = make_tokenizer([*shared, *(f"target{index}" for index in range(num_target - num_shared))])
    vocabulary = find(own, [target], target, size=num_target)
    assert vocabulary.num_shared == num_shared
    assert vocabulary.match is (VocabularyMatch.TRANSLATED if is_enough else VocabularyMatch.BYTES)


def test_padding_of_the_same_vocabulary_is_never_spelled():
    own = make_tokenizer(["a", "b"])
    assert find(own, [], own, size=8, way=Way.BYTES).match is VocabularyMatch.SAME
    assert not find(own, [], own, size=8, way=Way.BYTES).map.through_bytes


def test_a_token_without_partner_has_the_noise_of_its_prefix():
    way = make_map(["ab", "ba", "c", "b"], ["a", "b", "bab"], enough=math.inf)
    assert way._first_ids().tolist() == [0, 1, -1, 1, 3]
    assert [way.longer_ids(text).tolist() for text in ("a", "b", "ab", "")] == [[0], [1], [], [0, 1, 2]]


def test_a_vocabulary_is_made_once():
    own, other = make_tokenizer(["a", "b"]), make_tokenizer(["b", "c"])
    vocabularies = Vocabularies(own, [other], size=3, translates=True)
    maps = [vocabularies.find(other.fingerprint(), size).map for size in (3, 3, other.vocab_size + 5)]
    assert all(each.own is maps[0].own for each in maps), "padding makes no other one"
    assert [each.target_size for each in maps] == [3, 3, other.vocab_size + 5]
    assert vocabularies.find(other.fingerprint(), 3) is not vocabularies.find(other.fingerprint(), 4)
