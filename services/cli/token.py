"""outrider token: makes a token that a service accepts."""

import argparse
import sys
from pathlib import Path

from services.cli.terminal import Terminal
from services.engine.config import ConfigError
from services.service.access.caller import Scope
from services.service.access.tokens import new_token, read_tokens

_SCOPES = [scope.value for scope in Scope]
_MODE = 0o600


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument("name", metavar="NAME", help="the token's owner; several tokens may have one name")
    parser.add_argument("--tokens-file", type=Path, required=True, metavar="FILE", help="the file to add its hash to")
    parser.add_argument(
        "--scope",
        action="append",
        choices=_SCOPES,
        help=f"a scope that it grants; several may be given (default: {Scope.GENERATE.value})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a new token and add its hash to the file; returns the exit code."""
    scopes = [Scope(name) for name in arguments.scope or [Scope.GENERATE.value]]
    try:
        token, line = new_token(arguments.name, scopes)
        _add_line(arguments.tokens_file, line)
    except (ConfigError, OSError) as error:
        Terminal(sys.stderr).error(f"outrider token: {error}")
        return 1
    sys.stdout.write(f"{token}\n")
    return 0


def _add_line(path: Path, line: str) -> None:
    """Append a line to the file in one write; the file must be valid before and after."""
    before = path.read_bytes() if path.exists() else b""
    if before and not before.endswith(b"\n"):
        line = f"\n{line}"
    added = f"{line}\n".encode()
    read_tokens(before + added, path)
    if not before:
        path.touch(_MODE)
    with path.open("ab", buffering=0) as file:
        file.write(added)
