"""`--config FILE` sets what options on the command line would set."""

import argparse
from pathlib import Path

import pytest

from services.cli import build_parser, main
from services.cli.config_file import ConfigFileError, with_file

TOML = """
model = ["large=path/to/large", "small=path/to/small"]
draft = "localhost:50052"
kv-memory = 0.5
max_rows = 128
no-prefix-cache = true
lookup = false
drain-seconds = 1
"""


def parse(*options: str) -> argparse.Namespace:
    return build_parser(["target"]).parse_args(with_file(["target", *options]))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "target.toml"
    path.write_text(TOML)
    return path


def test_a_config_file_sets_what_the_command_line_sets(file: Path):
    written = parse("--config", str(file))
    said = parse(
        *("--model", "large=path/to/large", "--model", "small=path/to/small", "--draft", "localhost:50052"),
        *("--kv-memory", "0.5", "--max-rows", "128", "--no-prefix-cache", "--no-lookup", "--drain-seconds", "1"),
    )
    assert vars(written) == {**vars(said), "config": file}


def test_the_command_line_goes_before_the_file_and_adds_to_it(file: Path):
    arguments = parse("--max-rows=64", f"--config={file}", "--lookup", "--draft", "small=localhost:50053")
    assert (arguments.max_rows, arguments.lookup, arguments.kv_memory) == (64, True, 1 << 29)
    assert [tuple(draft) for draft in arguments.draft] == [("", "localhost:50052"), ("small", "localhost:50053")]


def test_without_a_file_nothing_changes():
    assert with_file(["target", "--model", "a"]) == ["target", "--model", "a"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max-rows = ", "it must be a TOML file: "),
        ("max-rows = { a = 1 }", r"max-rows is {'a': 1} in .*; it must be a string, a number, true, false, or a list"),
        ("started = 2026-01-01", "started is .* it must be a string"),
        ("config = 'other.toml'", "config is 'other.toml' in .*; it must be on the command line"),
    ],
)
def test_unknown_settings_of_a_file_are_refused(tmp_path: Path, text: str, said: str):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigFileError, match=said):
        with_file(["target", "--config", str(path)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max-rowz = 5", "there is no option --max-rowz; did you mean --max-rows?"),
        ("threads = 'many'", "argument --threads: invalid int value: 'many'"),
        ("weights = 'int3'", "argument --weights: invalid choice: 'int3'"),
    ],
)
def test_a_wrong_option_of_a_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(SystemExit):
        main(["target", "--model", "a", "--config", str(path)])
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["draft", "--config", "nowhere.toml"])
    assert "config is 'nowhere.toml'; it must be a TOML file: " in capsys.readouterr().err


def test_help_starts_with_the_options_needed_first(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["target", "--help"])
    lines = capsys.readouterr().out.splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings[1:] == [
        *("needed first:", "model:", "device:", "speculation:", "limits:", "security:", "observability:"),
        "rarely needed:",
    ]
    first = lines[lines.index("needed first:") : lines.index("model:")]
    assert sum(line.startswith("  --") for line in first) <= 11
