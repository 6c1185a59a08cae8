"""outrider completion: prints a script with which a shell completes the commands and their options."""

import argparse
import sys
from pathlib import Path

from services.cli import build_parser
from services.cli.terminal import Terminal

_SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "DIR")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument("shell", choices=_SHELLS, help='for bash: eval "$(outrider completion bash)"')


def run(arguments: argparse.Namespace) -> int:
    """Write the script; returns the exit code."""
    try:
        import shtab
    except ImportError:
        problem = "shtab is not installed; it comes with: pip install 'outrider[completion]'"
        Terminal(sys.stderr).error(f"outrider completion: {problem}")
        return 1
    parser = build_parser()
    for action in _options(parser):
        if action.type is Path or action.metavar in _FILES:
            action.__dict__["complete"] = shtab.FILE  # the attribute that shtab reads
    Terminal(sys.stdout).text(shtab.complete(parser, arguments.shell) + "\n")
    return 0


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return all options of all commands and their subcommands."""
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [inner for command in action.choices.values() for inner in _options(command)]
    return found
