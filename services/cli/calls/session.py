"""outrider session: creates, lists and deletes sessions."""

import argparse
from collections.abc import Callable, Iterable

from outrider import Client, Session
from services.cli.calls.ending import exit_code
from services.cli.calls.prompt import add_prompt, read_prompt
from services.cli.calls.readiness import add_client_options, ready_client
from services.cli.terminal import Terminal

_HEADING = "tokens  blocks  seconds left  name"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all actions and their options to the parser."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = _add_action(actions, "create", "keep the beginning of prompts in a session, and print its name", _create)
    add_prompt(create, "the text to hold")
    create.add_argument("--name", help="name of the session (default: the server chooses)")
    create.add_argument("--parent", metavar="NAME", help="a session whose tokens it begins with")
    create.add_argument("--ttl-seconds", type=float, metavar="SECONDS", help="delete it this long after its last use")
    _add_action(actions, "list", "list the sessions", _list)
    for name, summary, act in (("show", "print a session", _show), ("delete", "delete a session", _delete)):
        _add_action(actions, name, summary, act).add_argument("name", help="name of the session")


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    act: Callable[[Client, argparse.Namespace], Iterable[str]],
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    add_client_options(parser)
    parser.add_argument("--model", metavar="NAME", help="which of the server's models (default: its first)")
    parser.set_defaults(act=act)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen action; returns the exit code."""

    def act(out: Terminal, err: Terminal) -> int:
        with ready_client(arguments, err) as (client, readiness):
            lines = readiness.when_ready(lambda: [*arguments.act(client, arguments)])
        out.text("".join(f"{line}\n" for line in lines))
        return 0

    return exit_code("session", act)


def _create(client: Client, arguments: argparse.Namespace) -> Iterable[str]:
    options = {name: getattr(arguments, name) for name in ("name", "parent", "ttl_seconds", "model")}
    return (client.create_session(read_prompt(arguments), **options).name,)


def _list(client: Client, arguments: argparse.Namespace) -> Iterable[str]:
    return (_HEADING, *map(_row, client.list_sessions(model=arguments.model)))


def _show(client: Client, arguments: argparse.Namespace) -> Iterable[str]:
    return (_HEADING, _row(client.get_session(arguments.name, model=arguments.model)))


def _delete(client: Client, arguments: argparse.Namespace) -> Iterable[str]:
    client.delete_session(arguments.name, model=arguments.model)
    return ()


def _row(session: Session) -> str:
    return f"{session.num_tokens:>6}  {session.num_blocks:>6}  {session.seconds_left:>12.0f}  {session.name}"
