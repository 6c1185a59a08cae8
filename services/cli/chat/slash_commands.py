"""Lines that begin with a slash: commands to the chat program, not messages to the model."""

from collections.abc import Callable
from pathlib import Path

from services.cli.chat.session import ChatSession
from services.cli.terminal import Terminal

_Run = Callable[[ChatSession, str, Terminal], None]


def run_command(session: ChatSession, line: str, out: Terminal) -> None:
    """Run a command line such as "/system Be short."; raises ValueError and OSError if it cannot be run."""
    name, _, rest = line.removeprefix("/").partition(" ")
    if name not in _COMMANDS:
        raise ValueError(f"there is no /{name}; /help lists what there is")
    _COMMANDS[name][1](session, rest.strip(), out)


def _help(_session: ChatSession, _: str, out: Terminal) -> None:
    for usage, _run in _COMMANDS.values():
        out.note(usage)


def _system(session: ChatSession, rest: str, out: Terminal) -> None:
    session.dialogue.system = rest or None
    out.note("used from the next answer on" if rest else "there is no system message now")


def _reset(session: ChatSession, _: str, out: Terminal) -> None:
    session.dialogue.reset()
    out.note("the conversation is empty; the system message stays")


def _params(session: ChatSession, rest: str, out: Terminal) -> None:
    name, equals, _ = rest.partition("=")
    # With a single assignment its value may contain spaces.
    for assignment in rest.split() if equals and rest.count("=") > 1 else [rest] * bool(name):
        session.parameters.set(assignment)
    out.note(str(session.parameters) or "all have the server's defaults")


def _save(session: ChatSession, rest: str, out: Terminal) -> None:
    if not rest:
        raise ValueError("/save needs the name of a file")
    session.save(Path(rest).expanduser())
    out.note(f"{rest} is a body for POST /v1/chat/completions")


_COMMANDS: dict[str, tuple[str, _Run]] = {
    "help": ("/help                   this", _help),
    "system": ("/system TEXT            set the system message; without TEXT, remove it", _system),
    "reset": ("/reset                  forget the conversation", _reset),
    "params": ("/params NAME=VALUE ...  set sampling parameters; without names, show them", _params),
    "save": ("/save FILE              write the conversation as JSON", _save),
}
