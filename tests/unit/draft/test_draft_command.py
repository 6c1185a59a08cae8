"""The draft command: how it is told to predict for another vocabulary."""

import argparse

import pytest

from services.draft.command import add_options


def parse(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(["--model", "folder", *flags])


@pytest.mark.parametrize(
    ("flags", "way"),
    [((), "auto"), (("--translate", "bytes"), "bytes"), (("--translate", "intersection"), "intersection")],
)
def test_the_way_to_another_vocabulary(flags: tuple[str, ...], way: str) -> None:
    assert parse(*flags).translate == way


def test_a_way_that_there_is_not_names_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--translate", "letters")
    told = capsys.readouterr().err
    assert "argument --translate: invalid choice: 'letters'" in told
    assert all(way in told for way in ("auto", "intersection", "bytes"))
