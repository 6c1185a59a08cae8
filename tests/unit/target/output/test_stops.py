"""The stop that is earliest, then longest, is found as soon as it is there, and no more is held back than it takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.target.output.stop_strings import StopStrings

small_text = st.text(alphabet="ab", max_size=12)
small_stops = st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4)


def run(stops: list[str], tokens: list[bytes]) -> tuple[bytes, str | None, int]:
    """Feed tokens until a stop; return the text before it, the stop, and how many tokens were taken."""
    matcher, text = StopStrings(stops), b""
    for count, token in enumerate(tokens, start=1):
        text += token
        if (match := matcher.feed(token)) is not None:
            return text[: len(text) - match.distance], match.stop, count
    return text, None, len(tokens)


def expected(stops: list[str], tokens: list[bytes]) -> tuple[bytes, str | None, int]:
    """The rule itself, by brute force."""
    for count in range(1, len(tokens) + 1):
        text = b"".join(tokens[:count])
        found = [(text.find(stop.encode()), -len(stop.encode()), stop) for stop in stops if stop.encode() in text]
        if found:
            start, _, stop = min(found)
            return text[:start], stop, count
    return b"".join(tokens), None, len(tokens)


@given(small_stops, st.lists(small_text.map(str.encode)))
def test_the_earliest_then_longest_completed_stop_is_found(stops, tokens):
    assert run(stops, tokens) == expected(stops, tokens)


@given(small_stops.flatmap(lambda stops: st.tuples(st.just(stops), st.permutations(stops))), st.lists(st.binary()))
def test_the_order_of_the_stops_does_not_matter(both, tokens):
    stops, shuffled = both
    assert run(stops, tokens) == run(shuffled, tokens)


@given(small_stops, st.lists(small_text.map(str.encode)))
def test_only_text_that_may_become_a_stop_is_held_back(stops, tokens):
    matcher, fed = StopStrings(stops), b""
    prefixes = {stop.encode()[:length] for stop in stops for length in range(1, len(stop.encode()))}
    for token in tokens:
        if matcher.feed(token) is not None:
            return
        fed += token
        assert matcher.num_held == max((len(prefix) for prefix in prefixes if fed.endswith(prefix)), default=0)


@pytest.mark.parametrize(
    ("stops", "tokens", "text", "matched"),
    [
        (["stop"], [b"a st", b"op b"], b"a ", "stop"),
        (["\n\n", "\n"], [b"a\n\n"], b"a", "\n\n"),
        (["\n\n", "\n"], [b"a\n", b"\n"], b"a", "\n"),
        (["b", "abc"], [b"xabcd"], b"x", "abc"),
        (["b", "abc"], [b"xa", b"b", b"cd"], b"xa", "b"),
        (["abac", "bad"], [b"aba", b"d"], b"a", "bad"),
        (["aab"], [b"aaa", b"ab"], b"aa", "aab"),
        (["漢字"], ["漢".encode()[:2], "漢".encode()[2:] + "字".encode()], b"", "漢字"),
        (["a", "a"], [b"a"], b"", "a"),
        ([], [b"abc"], b"abc", None),
        (["abc"], [b"xab"], b"xab", None),
    ],
)
def test_examples(stops, tokens, text, matched):
    assert run(stops, tokens)[:2] == (text, matched)


def test_case_matters():
    assert run(["STOP"], [b"stop STOP"])[:2] == (b"stop ", "STOP")


def test_an_empty_stop_is_refused():
    with pytest.raises(ValueError, match="must not be empty"):
        StopStrings(["a", ""])
