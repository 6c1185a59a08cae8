"""Names that pages give users exist: commands with their options, and our names for other engines' options."""

import argparse
import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

import outrider
from outrider import GenerateOptions
from services.cli import build_parser

ROOT = Path(__file__).parents[3]
MIGRATION = sorted(ROOT.glob("docs/use/migration/*.md"))
PAGES = [ROOT / "README.md", ROOT / "clients/llm/README.md", *sorted(ROOT.glob("docs/**/*.md"))]
_ROW = re.compile(r"^\|( `[^|]+)\|([^|]+)\|[^|]*\|$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_CODE = re.compile(r"^```(?:bash|sh|text)?\n(.*?)^```$|^((?: {4}.*\n)+)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:^\s*|\s{3,})(outrider .+)")
_END = re.compile(r"\s(?:#|>|\||&&|;)\s|\s{3,}|$")


def options_of(*commands: str) -> set[str]:
    """The long options of some commands."""
    parser = build_parser(commands)
    (subparsers,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {option for name in commands for option in subparsers.choices[name]._option_string_actions}


def is_ours(name: str) -> bool:
    """Whether an option of a request or of a server, or an attribute of the client, has this name."""
    if name.startswith("--"):
        return name in options_of("target", "up")
    owner, _, attribute = name.partition(".")
    if attribute:
        kind = getattr(outrider, owner)
        return hasattr(kind, attribute) or attribute in getattr(kind, "__annotations__", {})
    return name in GenerateOptions.__annotations__


@pytest.mark.parametrize("page", MIGRATION, ids=lambda page: page.stem)
def test_other_engines_options_have_a_name_here(page: Path):
    rows = _ROW.findall(page.read_text())
    assert len(rows) > 30
    assert [ours for _, ours in rows if ours != " none " and not _QUOTED.findall(ours)] == []
    named = [name for _, ours in rows for name in _QUOTED.findall(ours)]
    assert [name for name in named if not is_ours(name)] == []


@pytest.mark.parametrize("gone", ["max_token", "--drafts", "Result.reason"])
def test_a_name_that_is_gone_is_found(gone: str):
    assert not is_ours(gone)


def commands_in(page: Path) -> list[str]:
    """The command lines in a page's examples."""
    examples = ["".join(parts) for parts in _CODE.findall(page.read_text())]
    lines = "\n".join(examples).replace("\\\n", " ").splitlines()
    found = [match[1] for line in lines if (match := _COMMAND.search(line)) and "…" not in line]
    return [command[: end.start()] for command in found if (end := _END.search(command))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_in_an_example_is_one(page: Path):
    refused = []
    for command in commands_in(page):
        words = shlex.split(command)[1:]
        try:
            with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
                build_parser(words[:1]).parse_args(words)
        except SystemExit as end:
            if end.code != 0:  # of --help
                refused.append((command, said.getvalue().splitlines()[-1]))
    assert refused == []
