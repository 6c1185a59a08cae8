"""The errors of a command for unknown words."""

import pytest

from services.cli import build_parser, main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("generat x", "outrider: error: there is no command generat; did you mean generate?"),
        ("generate --temprature 1 x", "there is no option --temprature; did you mean --temperature?"),
        ("generate --temp 1 x", "did you mean --temperature or --template-variables?"),
        ("generate --qqqq x", "there is no option --qqqq; outrider generate --help lists them"),
        ("generate x y", "outrider generate: error: nothing is expected at 'y'"),
        ("admin drain --addres x", "outrider admin drain: error: there is no option --addres; did you mean --address?"),
        (
            "up --context 99",
            "there is no option --context; outrider up --help lists them; options of `outrider target`",
        ),
    ],
)
def test_a_word_that_is_not_known_is_named(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == 2
    assert told in capsys.readouterr().err


def test_the_beginning_of_an_option_is_not_taken_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Of `up --weights int8` a folder for --weights-cache would be made."""
    with pytest.raises(SystemExit):
        main(["up", "--weights", "int8"])
    assert "did you mean --weights-cache?; options of `outrider target` go after --" in capsys.readouterr().err


def test_options_after_two_dashes_go_to_the_target() -> None:
    arguments = build_parser(["up"]).parse_args(["up", "--draft", "d", "--", "--weights", "int8"])
    assert (arguments.options, str(arguments.draft)) == (["--weights", "int8"], "d")
