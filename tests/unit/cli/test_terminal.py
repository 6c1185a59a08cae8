"""Terminal: a model's text is shown and can do nothing else to the terminal; a pipe gets its bytes."""

import io
from collections.abc import Callable

import pytest

from outrider import Chunk, PredictionSource, Token
from services.cli.terminal import Terminal

HOSTILE = "a\033]0;title\007\x9b2J\tb\n"


class Screen(io.StringIO):
    """A screen, which is a terminal."""

    def isatty(self) -> bool:
        return True


def chunk(text: str, *tokens: tuple[str, PredictionSource | None]) -> Chunk:
    """A chunk of text, with records of its tokens."""
    records = (Token(1, b"", t, None, None, (), s is not None, s, None, None, None) for t, s in tokens)
    return Chunk(text, (), tuple(records), ())


@pytest.mark.parametrize("records", [(), ((HOSTILE, None),)])
def test_no_control_character_reaches_a_screen(records: tuple[tuple[str, None], ...]) -> None:
    Terminal(screen := Screen()).chunk(chunk(HOSTILE, *records))
    assert screen.getvalue() == "a\ufffd]0;title\ufffd\ufffd2J\tb\n"


@pytest.mark.parametrize("write", [Terminal.text, Terminal.note, Terminal.error, Terminal.heading, Terminal.progress])
def test_control_characters_from_a_server_never_reach_a_screen(write: Callable[[Terminal, str], None]) -> None:
    write(Terminal(screen := Screen()), HOSTILE)
    assert "a\ufffd]0;title\ufffd\ufffd2J\tb" in screen.getvalue()
    write(Terminal(pipe := io.StringIO()), HOSTILE)
    assert pipe.getvalue().rstrip("\n") == ("" if write is Terminal.progress else HOSTILE.rstrip("\n"))


def test_a_pipe_gets_the_text_as_it_is() -> None:
    Terminal(pipe := io.StringIO()).chunk(chunk(HOSTILE, (HOSTILE, PredictionSource.DRAFT)))
    assert pipe.getvalue() == HOSTILE


def test_colours_show_the_source_of_a_predicted_token() -> None:
    tokens = (("a", None), ("b", PredictionSource.DRAFT), ("c", PredictionSource.LOOKUP))
    Terminal(screen := Screen()).chunk(chunk("abc", *tokens))
    assert screen.getvalue() == "a\033[32mb\033[0m\033[36mc\033[0m"
