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
def test_the_translate_option_is_auto_bytes_or_intersection(flags: tuple[str, ...], way: str) -> None:
    assert parse(*flags).translate == way


def test_an_unknown_translation_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--translate", "letters")
    told = capsys.readouterr().err
    assert "argument --translate: invalid choice: 'letters'" in told
    assert all(way in told for way in ("auto", "intersection", "bytes"))


def test_a_translating_draft_is_refused_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"])
    assert run(parse("--target-tokenizer", "org/name", "--device", "cuda:0")) == ExitCode.NOT_STARTED
    problem = "target_tokenizer is org/name; it must not be set with device cuda:0, only with cpu"
    assert capsys.readouterr().err == f"outrider draft: {problem}\n"


def test_a_draft_on_several_gpus_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"] * 2)
    assert run(parse("--device", "cuda:0,cuda:1")) == ExitCode.NOT_STARTED
    assert capsys.readouterr().err == "outrider draft: device is 'cuda:0,cuda:1'; a draft has one device\n"
