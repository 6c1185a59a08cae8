"""The text up to the first stop is shown, in whole characters, as soon as it is safe and never twice."""

import codecs
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.text.tokenizer import Tokenizer
from services.target.output.detokenizer import Detokenizer
from tests.harness.models.checkpoints import byte_level_tokenizer

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
END = 1


def ids_of(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False, parse_special=False)


def push_all(output: Detokenizer, ids: list[int]) -> tuple[str, str | None]:
    text = ""
    for token_id in ids:
        piece, matched = output.push(token_id)
        text += piece
        if matched is not None:
            return text + output.finish(), matched
    return text + output.finish(), None


@given(st.text(), st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_released_text_ends_where_a_stop_begins(text, stops):
    shown, matched = push_all(Detokenizer(TOKENIZER, stops), ids_of(text))
    if matched is None:
        assert shown == text
        assert not any(stop in text for stop in stops)
    else:
        assert not any(stop in shown for stop in stops)
        assert text.startswith(shown + matched)


def test_a_stop_may_begin_inside_a_character():
    """The byte before it, the rest of whose character never came, becomes U+FFFD."""
    start = next(i for i in range(TOKENIZER.vocab_size) if TOKENIZER.token_bytes(i) == b"\xe6")
    assert push_all(Detokenizer(TOKENIZER, ["!"]), [start, *ids_of("!")]) == ("\ufffd", "!")


@pytest.mark.parametrize("show_special", [False, True])
def test_stops_see_special_tokens_whether_or_not_they_are_shown(show_special):
    ids = [*ids_of("a"), END, *ids_of("b")]
    assert push_all(Detokenizer(TOKENIZER, ["d|>b"], show_special=show_special), ids)[1] == "d|>b"
    assert push_all(Detokenizer(TOKENIZER, ["<|end|>"], show_special=show_special), ids) == ("a", "<|end|>")
    assert push_all(Detokenizer(TOKENIZER, ["ab"], show_special=show_special), ids)[1] is None


@pytest.mark.parametrize(("show_special", "text"), [(False, "a"), (True, "a<|end|>")])
def test_an_included_stop_is_shown_as_far_as_its_tokens_are(show_special, text):
    output = Detokenizer(TOKENIZER, ["<|end|>"], show_special=show_special, include_stop=True)
    assert push_all(output, [*ids_of("a"), END]) == (text, "<|end|>")


@pytest.mark.parametrize(
    ("token", "options", "text"),
    [
        (END, {}, "a st"),
        (END, {"include_stop": True}, "a st"),
        (END, {"include_stop": True, "show_special": True}, "a st<|end|>"),
        (ids_of("op")[0], {"include_stop": True}, "a stop"),
    ],
)
def test_a_stop_token_releases_all_and_completes_no_stop_string(token, options, text):
    output = Detokenizer(TOKENIZER, ["sto"], **options)
    released = "".join(output.push(token_id)[0] for token_id in ids_of("a st"))
    assert released == "a "
    assert released + output.push_stop_token(token) + output.finish() == text


@pytest.mark.parametrize(
    ("stops", "min_tokens", "text", "matched"),
    [
        (["!"], 3, "a!b?c", "!"),  # the one inside of the first tokens is passed over
        (["b?"], 3, "a!", "b?"),  # it begins in them, and ends after them
        (["b?"], 4, "a!b?c!d", None),
        (["!b?c"], 3, "a", "!b?c"),
        (["a!b", "!b?"], 3, "a", "!b?"),
        (["b?", "b?c"], 4, "a!", "b?c"),  # longer than one that is passed over
    ],
)
def test_a_stop_counts_when_completed_after_min_tokens(stops, min_tokens, text, matched):
    ids = ids_of("a!b?c!d")
    assert len(ids) == 7
    assert push_all(Detokenizer(TOKENIZER, stops, min_tokens=min_tokens), ids) == (text, matched)


def test_a_stop_that_is_passed_over_is_shown_at_once():
    output = Detokenizer(TOKENIZER, ["!b", "b?c"], min_tokens=3)
    assert [output.push(token_id)[0] for token_id in ids_of("a!bd")] == ["a", "", "!", "bd"]


def test_held_text_is_released_at_the_end():
    output = Detokenizer(TOKENIZER, ["end of text"])
    pieces = [output.push(token_id)[0] for token_id in ids_of("the end of te")]
    assert "".join(pieces) == "the "
    assert output.finish() == "end of te"


def test_nothing_is_released_twice():
    output = Detokenizer(TOKENIZER, ["xyz"])
    pieces = [output.push(token_id)[0] for token_id in ids_of("def f(x): return x")]
    assert "".join([*pieces, output.finish(), output.finish()]) == "def f(x): return x"


# Against the rules themselves, on whole strings

BYTES = {TOKENIZER.token_bytes(token_id): token_id for token_id in range(TOKENIZER.vocab_size)}
ALPHABET = "ab<|end>é漢"
HEALED = "op"  # the token that ends the prompt
tokens = st.lists(st.sampled_from([END, *(BYTES[bytes([byte])] for byte in ALPHABET.encode())]), max_size=30)
stops = st.lists(
    st.sampled_from(["<|end|>", "a<|end|>", "nd|>", "aa", "aab", "é", "漢a", "|>漢", "p", "opa"])
    | st.text(ALPHABET, min_size=1, max_size=4),
    max_size=4,
)


@dataclass(frozen=True)
class Rules:
    """What is asked of the text, and what it is then."""

    stops: list[str]
    show_special: bool
    min_tokens: int
    include_stop: bool
    num_known: int  # bytes of HEALED that are the prompt's

    def output(self) -> Detokenizer:
        """What is to be tested."""
        output = Detokenizer(
            TOKENIZER,
            self.stops,
            show_special=self.show_special,
            min_tokens=self.min_tokens,
            include_stop=self.include_stop,
        )
        output.begin(BYTES[HEALED.encode()], num_known=self.num_known)
        return output

    def spelled(self, ids: list[int]) -> bytes:
        """All bytes of the text, if it has tokens at all."""
        healed = HEALED.encode()[self.num_known :] if ids else b""
        return healed + b"".join(map(TOKENIZER.token_bytes, ids))

    def shown(self, ids: list[int], num_bytes: int) -> bytes:
        """What is visible of the first bytes."""
        data = self.spelled(ids)[:num_bytes]
        hidden = b"" if self.show_special else TOKENIZER.token_bytes(END)
        start = len(self.spelled(ids[:1])) - len(TOKENIZER.token_bytes(ids[0])) if ids else 0
        visible = data[:start]
        for token_id in ids:
            size = len(TOKENIZER.token_bytes(token_id))
            visible += b"" if hidden and token_id == END else data[start : start + size]
            start += size
        return visible

    def end(self, ids: list[int]) -> tuple[int, str] | None:
        """How many bytes the text has when its last token completes a stop, and which; None if it does not."""
        whole, first = self.spelled(ids), len(self.spelled(ids[: self.min_tokens]))
        places = ((whole.find(stop.encode(), max(0, first + 1 - len(stop.encode()))), stop) for stop in self.stops)
        found = [(at, -len(stop.encode()), stop) for at, stop in places if at >= 0]
        if not found:
            return None
        start, negative_size, stop = min(found)
        return (start - negative_size if self.include_stop else start), stop

    def num_safe(self, ids: list[int]) -> int:
        """How many bytes no stop can reach any more."""
        whole = self.spelled(ids)
        longer = [[stop.encode() for stop in self.stops if len(stop.encode()) > size] for size in range(len(whole) + 1)]
        starts = range(len(whole))
        held = (at for at in starts if any(stop.startswith(whole[at:]) for stop in longer[len(whole) - at]))
        return next(held, len(whole))


rules = st.builds(
    Rules,
    stops=stops,
    show_special=st.booleans(),
    min_tokens=st.sampled_from([0, 0, 3]),
    include_stop=st.booleans(),
    num_known=st.integers(0, len(HEALED)),
)


@given(rules, tokens)
def test_text_is_released_once_no_stop_can_reach_it(rules: Rules, ids: list[int]):
    output, text = rules.output(), ""
    for count, token_id in enumerate(ids, start=1):
        released, matched = output.push(token_id)
        text += released
        if (end := rules.end(ids[:count])) is not None:
            num_bytes, stop = end
            assert (text, matched) == (rules.shown(ids, num_bytes).decode(errors="replace"), stop)
            assert output.finish() == ""
            return
        safe = rules.shown(ids, rules.num_safe(ids[:count]))
        assert matched is None
        assert text == codecs.getincrementaldecoder("utf-8")(errors="replace").decode(safe)
    if ids:
        everything = rules.shown(ids, len(rules.spelled(ids)))
        assert text + output.finish() == everything.decode(errors="replace")


@pytest.mark.parametrize(("stops", "text"), [([], "p"), (["p"], ""), (["po"], "p")])
def test_finish_shows_the_rest_of_a_healed_token(stops, text):
    output = Detokenizer(TOKENIZER, stops)
    output.begin(BYTES[HEALED.encode()], num_known=1)
    assert output.finish() == text
    assert output.finish() == ""


def test_the_healed_tokens_rest_is_not_searched_for_bans():
    """It is the prompt's: nothing that begins in it can be taken back."""
    output = Detokenizer(TOKENIZER, banned=["pa", "ab"])
    output.begin(BYTES[HEALED.encode()], num_known=1)
    assert output.push(BYTES[b"a"]) == ("pa", None)
    assert (output.banned, output.num_unsafe) == (None, 1)
    output.push(BYTES[b"b"])
    assert output.banned == ("ab", 2)
