"""The scanner takes the texts that a reader of JSON takes, and stops at the first character that cannot stand there."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.target.message.call_text import DECODER
from services.target.message.json_scanner import JsonScanner

PIECES = [*'{}[]":, \n\\01-.eE+u\x01é', "true", "fals", "null", "00aF", '"a":']
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def end_of(text: str) -> int | None:
    """The end of the value, None if it is not whole; raises ValueError."""
    scanner = JsonScanner(0)
    for _ in scanner.read(text):
        pass
    return scanner.position if scanner.is_whole else None


@settings(max_examples=100)
@given(st.sampled_from('{["'), st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_the_end_of_a_value_is_where_json_has_it(first, rest):
    try:
        _, end = DECODER.raw_decode(first + rest)
    except ValueError:
        end = None
    try:
        assert end_of(first + rest) == end
    except ValueError:
        assert end is None


@given(VALUES, st.sampled_from([None, 1]))
def test_a_value_is_whole_at_its_end_and_not_before(value, indent):
    text = json.dumps([value], indent=indent)
    assert [end_of(text[:cut]) for cut in range(len(text) + 1)] == [*[None] * len(text), len(text)]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ('{"a" 1}', 5), ("[1,]", 3), ("[01]", 2), ("[1.]", 3), ("[-a]", 2), ("[+1]", 1), ("[nul]", 4), ('{a: 1}', 1),
        ('["\\x"]', 3), ('["\\u12g4"]', 6), ('["a\nb"]', 3), ("[NaN]", 1), ("[1e+]", 4), ('{"a":1,}', 7), ("[}", 1),
    ],
)  # fmt: skip
def test_the_first_wrong_character_is_found(text, position):
    scanner = JsonScanner(0)
    with pytest.raises(ValueError, match="stands where it cannot"):
        list(scanner.read(text))
    assert scanner.position == position
