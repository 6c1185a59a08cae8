"""The draft command: its options for a target with another vocabulary."""

import argparse

import pytest

from services.draft.command import add_options, run
from services.service.life.exit_code import ExitCode


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


def test_a_gpu_is_for_targets_of_its_own_vocabulary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"])
    assert run(parse("--target-tokenizer", "org/name", "--device", "cuda:0")) == ExitCode.NOT_STARTED
    problem = "target_tokenizer is org/name; it must not be set with device cuda:0, only with cpu"
    assert capsys.readouterr().err == f"outrider draft: {problem}\n"
