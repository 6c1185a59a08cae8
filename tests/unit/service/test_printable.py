"""Printable: text from outside becomes one short line, whatever it holds."""

import pytest

from services.service.printable import printable


@pytest.mark.parametrize("text", ["", "Qwen2.5-Coder 0.5B", "größer", "模型", "x" * 100])
def test_an_ordinary_text_is_left_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize("letter", ["\n", "\r", "\t", "\0", "\x1b", "\x7f", "\u2028", "\u202e", "\ud800"])
def test_characters_that_would_change_the_line_are_replaced(letter):
    assert printable(f"a{letter}b") == "a\N{REPLACEMENT CHARACTER}b"


def test_a_long_text_is_cut():
    assert printable("x" * 1_000_000) == "x" * 100 + "..."
    assert printable("xyz", 2) == "xy..."
