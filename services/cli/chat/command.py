"""outrider chat: a conversation with the model, in a terminal or through a pipe."""

import argparse
import contextlib
import sys
from collections.abc import Callable

from services.cli.calls.ending import exit_code
from services.cli.calls.readiness import add_client_options, ready_client
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.parameters import Parameters
from services.cli.chat.session import ChatSession
from services.cli.chat.slash_commands import run_command
from services.cli.terminal import Terminal
from services.service.printable import printable


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    add_client_options(parser)
    parser.add_argument("--model", metavar="NAME", help="which of the server's models (default: its first)")
    parser.add_argument("--system", metavar="TEXT", help="the system message of the conversation")
    parser.add_argument(
        "--param",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a sampling parameter, as /params sets it; several may be given",
    )


def run(arguments: argparse.Namespace) -> int:
    """Chat until the input ends; returns the exit code, 1 if a question from a pipe got no answer."""
    return exit_code("chat", lambda out, err: _chat(arguments, out, err))


def _chat(arguments: argparse.Namespace, out: Terminal, err: Terminal) -> int:
    parameters = Parameters(arguments.model)
    for assignment in arguments.params:
        parameters.set(assignment)
    with ready_client(arguments, err) as (client, readiness):
        model = readiness.when_ready(lambda: client.model_info(model=arguments.model))
        if not model.has_chat_template:
            raise ValueError(f"{model.name} has no chat template; `outrider generate` continues texts with it")
        is_live = sys.stdin.isatty() and out.is_watched
        session = ChatSession(client, model, Dialogue(arguments.system), parameters, goes_on=is_live)
        if is_live:
            out.note(f"{printable(model.name)}; /help says what else a line can be, Ctrl-C ends an answer, Ctrl-D all")
            out.legend("a draft or a head", lookup=True)
        return _converse(session, _read_keys if is_live else _read_pipe, out, err, goes_on=is_live)


def _converse(
    session: ChatSession, read: Callable[[], str | None], out: Terminal, err: Terminal, *, goes_on: bool
) -> int:
    """Answer line by line; with `goes_on` (a person types), it continues after Ctrl-C and after an error."""
    while True:
        try:
            if (line := read()) is None:
                return 0
            if line and not _do(session, line, out, err) and not goes_on:
                return 1
        except KeyboardInterrupt:
            if not goes_on:
                raise


def _do(session: ChatSession, line: str, out: Terminal, err: Terminal) -> bool:
    """Answer a question, or run a command; returns False on failure."""
    if line.startswith("//") or not line.startswith("/"):
        return session.ask(line.removeprefix("/") if line.startswith("//") else line, out, err)
    try:
        run_command(session, line, err)
    except (ValueError, OSError) as error:
        err.error(str(error))
        return False
    return True


def _read_keys() -> str | None:
    """Return the next typed line, which can be edited; None for Ctrl-D, "" for Ctrl-C."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - it makes lines editable
    try:
        return input("> ").strip()
    except (EOFError, KeyboardInterrupt) as end:
        print()
        return None if isinstance(end, EOFError) else ""


def _read_pipe() -> str | None:
    line = sys.stdin.readline()
    return line.strip() if line else None
