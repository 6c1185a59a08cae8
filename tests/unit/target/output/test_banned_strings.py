"""Banned strings are found as soon as they are complete, in any case, and text is held back no longer than needed."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.target.output.banned_strings import BannedStrings

LETTERS = "aAbßsSéÉΣςİ"
texts = st.text(alphabet=LETTERS, max_size=10)
bans = st.lists(st.text(alphabet=LETTERS, min_size=1, max_size=4), min_size=1, max_size=3)


def run(strings: list[str], tokens: list[bytes]) -> list[tuple[str, int] | int | None]:
    """What each token gives: the banned string with how many tokens it spans, else how many tokens are held."""
    search = BannedStrings(strings)
    outcomes: list[tuple[str, int] | int | None] = []
    for token in tokens:
        match = search.feed(token, is_special=False)
        if match is not None:
            return [*outcomes, (match.string.casefold(), match.num_tokens)]
        outcomes.append(search.num_held)
    return outcomes


def expected(strings: list[str], tokens: list[bytes]) -> list[tuple[str, int] | int]:
    """The rule itself, on whole strings."""
    outcomes: list[tuple[str, int] | int] = []
    for count in range(1, len(tokens) + 1):
        folded, owners = _fold(tokens[:count])
        found = [
            (folded.find(string.casefold()), -len(string.casefold()), string.casefold())
            for string in strings
            if string.casefold() in folded
        ]
        if found:
            start, _, string = min(found)
            return [*outcomes, (string, count - owners[start])]
        outcomes.append(count - _first_held(strings, folded, owners, tokens[:count]))
    return outcomes


def _fold(tokens: list[bytes]) -> tuple[str, list[int]]:
    """The folded text as far as its characters are whole, and for each of its characters the token it begins in."""
    text = _whole(b"".join(tokens))
    ends = [sum(map(len, tokens[: index + 1])) for index in range(len(tokens))]
    folded, owners, position = "", [], 0
    for character in text:
        owner = next(index for index, end in enumerate(ends) if position < end)
        folded += character.casefold()
        owners += [owner] * len(character.casefold())
        position += len(character.encode())
    return folded, owners


def _whole(data: bytes) -> str:
    return data.decode(errors="ignore")


def _first_held(strings: list[str], folded: str, owners: list[int], tokens: list[bytes]) -> int:
    """The first token in which a banned string may have begun that is not whole."""
    begun = [
        owners[start]
        for start in range(len(folded))
        if any(string.casefold().startswith(folded[start:]) for string in strings)
    ]
    size, whole = 0, len(_whole(b"".join(tokens)).encode())
    for index, token in enumerate(tokens):
        size += len(token)
        if size > whole:  # the rest of a character that is not whole
            return min([*begun, index])
    return min([*begun, len(tokens)])


@st.composite
def tokens_of(draw, text_strategy=texts) -> list[bytes]:
    """A text cut anywhere, in the middle of characters too, with empty tokens."""
    data = draw(text_strategy).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(bans, tokens_of())
def test_banned_strings_are_found_and_held_back_no_longer(strings, tokens):
    assert run(strings, tokens) == expected(strings, tokens)


@given(bans, st.lists(st.sampled_from([b"a", b"s", b"S", b"\xc3", b"\x9f", b"\xc3\x9f", b"\xf0\x9f", b""])))
def test_bytes_that_are_no_character_are_searched_too(strings, tokens):
    """A broken character stands between the others, and never for one of them."""
    outcomes = run(strings, tokens)
    for count, outcome in enumerate(outcomes, start=1):
        text = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(b"".join(tokens[:count]))
        assert isinstance(outcome, tuple) == any(string.casefold() in text.casefold() for string in strings)


@given(bans, tokens_of(), st.integers(0, 8))
def test_a_fork_searches_as_the_original_does(strings, tokens, cut):
    search = BannedStrings(strings)
    for token in tokens[:cut]:
        if search.feed(token, is_special=False) is not None:
            return
    fork = search.fork()
    rest = [fork.feed(token, is_special=False) for token in tokens[cut : cut + 1]]
    assert rest == [search.feed(token, is_special=False) for token in tokens[cut : cut + 1]]


@pytest.mark.parametrize(
    ("strings", "tokens", "match"),
    [
        (["Stop"], [b"a s", b"TO", b"p"], ("Stop", 3)),
        (["STRASSE"], ["Stra\u00dfe".encode()], ("STRASSE", 1)),
        (["\u00df"], [b"s", b"S"], ("\u00df", 2)),
        (["s"], ["\u00df".encode()[:1], "\u00df".encode()[1:]], ("s", 2)),
        (["漢"], ["a漢".encode()[:2], "a漢".encode()[2:]], ("漢", 2)),
        (["ab", "xabc"], [b"x", b"abc"], ("xabc", 2)),
        (["b", "abc"], [b"a", b"b"], ("b", 1)),
        (["ab", "abc"], [b"a", b"bc"], ("abc", 2)),
        (["aab"], [b"a", b"a", b"a", b"b"], ("aab", 3)),
    ],
)
def test_examples(strings, tokens, match):
    search = BannedStrings(strings)
    *others, last = [search.feed(token, is_special=False) for token in tokens]
    assert (set(others) <= {None}, last) == (True, match)


@pytest.mark.parametrize(("string", "num_tokens"), [("d>b", 2), ("<END>", 1), ("a<end>b", 3), ("aB", 3), ("ab!", None)])
def test_special_tokens_match_as_text_and_as_nothing(string, num_tokens):
    search = BannedStrings([string])
    fed = [(b"a", False), (b"<end>", True), (b"b", False)]
    matches = [search.feed(data, is_special=is_special) for data, is_special in fed]
    assert next((match.num_tokens for match in matches if match), None) == num_tokens
