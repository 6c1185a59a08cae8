"""Stop strings never show, nothing else is lost, and text is held back no longer than a stop string may need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.output_text import OutputText
from services.engine.stops import StopStrings
from services.engine.tokenizer import Tokenizer
from tests.checkpoints import byte_level_tokenizer

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
END = 1

small_text = st.text(alphabet="ab", max_size=12)
small_stops = st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4)


def run(stops: list[str], tokens: list[bytes]) -> tuple[bytes, str | None, int]:
    """Feed tokens until a stop; return the text, the stop, and how many tokens were taken."""
    matcher, text = StopStrings(stops), b""
    for count, token in enumerate(tokens, start=1):
        released, matched = matcher.feed(token)
        text += released
        if matched is not None:
            return text, matched, count
    return text + matcher.flush(), None, len(tokens)


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
def test_earliest_then_longest_stop_of_the_first_token_that_completes_one(stops, tokens):
    assert run(stops, tokens) == expected(stops, tokens)


@given(small_stops.flatmap(lambda stops: st.tuples(st.just(stops), st.permutations(stops))), st.lists(st.binary()))
def test_the_order_of_the_stops_does_not_matter(both, tokens):
    stops, shuffled = both
    assert run(stops, tokens) == run(shuffled, tokens)


@given(small_stops, st.lists(small_text.map(str.encode)))
def test_only_what_may_become_a_stop_is_held_back(stops, tokens):
    matcher, fed, released = StopStrings(stops), b"", b""
    for token in tokens:
        part, matched = matcher.feed(token)
        if matched is not None:
            return
        fed, released = fed + token, released + part
        prefixes = {stop.encode()[:length] for stop in stops for length in range(1, len(stop.encode()))}
        longest = max((len(prefix) for prefix in prefixes if fed.endswith(prefix)), default=0)
        assert fed[len(released) :] == fed[len(fed) - longest :]


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


# OutputText


def ids_of(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False, parse_special=False)


def push_all(output: OutputText, ids: list[int]) -> tuple[str, str | None]:
    text = ""
    for token_id in ids:
        piece, matched = output.push(token_id)
        text += piece
        if matched is not None:
            return text + output.finish(), matched
    return text + output.finish(), None


@given(st.text(), st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_released_text_ends_where_a_stop_begins(text, stops):
    shown, matched = push_all(OutputText(TOKENIZER, stops), ids_of(text))
    if matched is None:
        assert shown == text
        assert not any(stop in text for stop in stops)
    else:
        assert not any(stop in shown for stop in stops)
        assert text.startswith(shown + matched)


def test_a_stop_may_begin_inside_a_character():
    """The byte before it, the rest of whose character never came, becomes U+FFFD."""
    start = next(i for i in range(TOKENIZER.vocab_size) if TOKENIZER.token_bytes(i) == b"\xe6")
    assert push_all(OutputText(TOKENIZER, ["!"]), [start, *ids_of("!")]) == ("\ufffd", "!")


def test_hidden_special_tokens_do_not_break_a_stop():
    ids = [*ids_of("a"), END, *ids_of("b")]
    assert push_all(OutputText(TOKENIZER, ["ab"]), ids) == ("", "ab")
    assert push_all(OutputText(TOKENIZER, ["ab"], show_special=True), ids) == ("a<|end|>b", None)


def test_shown_special_tokens_can_be_stops():
    ids = [*ids_of("a"), END]
    assert push_all(OutputText(TOKENIZER, ["<|end|>"], show_special=True), ids) == ("a", "<|end|>")


def test_stops_are_not_looked_for_in_the_first_min_tokens():
    """Neither one inside them nor one that begins in them."""
    ids = ids_of("a!b?c!d")
    assert len(ids) == 7
    assert push_all(OutputText(TOKENIZER, ["!", "b?"], min_tokens=3), ids) == ("a!b?c", "!")


def test_held_text_is_released_at_the_end():
    output = OutputText(TOKENIZER, ["end of text"])
    pieces = [output.push(token_id)[0] for token_id in ids_of("the end of te")]
    assert "".join(pieces) == "the "
    assert output.finish() == "end of te"


def test_nothing_is_released_twice():
    output = OutputText(TOKENIZER, ["xyz"])
    pieces = [output.push(token_id)[0] for token_id in ids_of("def f(x): return x")]
    assert "".join([*pieces, output.finish(), output.finish()]) == "def f(x): return x"
