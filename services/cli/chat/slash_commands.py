"""Lines that begin with a slash: what the one who chats asks of the program, not of the model."""

from collections.abc import Callable
from pathlib import Path

from services.cli.chat.session import ChatSession
from services.cli.terminal import Terminal

_Run = Callable[[ChatSession, str, Terminal], None]


def run_command(session: ChatSession, line: str, out: Terminal) -> None:
    """Do what a line such as "/system Be short." says; raises ValueError and OSError for what cannot be done."""
    name, _, rest = line.removeprefix("/").partition(" ")
    if name not in _COMMANDS:
        raise ValueError(f"there is no /{name}; /help lists what there is")
    _COMMANDS[name][1](session, rest.strip(), out)


def _help(_session: ChatSession, _: str, out: Terminal) -> None:
    for usage, _run in _COMMANDS.values():
        out.note(usage)


def _system(session: ChatSession, rest: str, out: Terminal) -> None:
    session.dialogue.system = rest or None
    out.note("from the next answer on" if rest else "the system says nothing")


def _reset(session: ChatSession, _: str, out: Terminal) -> None:
    session.dialogue.reset()
    out.note("all is forgotten but what the system says")


def _params(session: ChatSession, rest: str, out: Terminal) -> None:
    name, equals, _ = rest.partition("=")
    # A value may have spaces where it stands alone.
    for assignment in rest.split() if equals and rest.count("=") > 1 else [rest] * bool(name):
        session.parameters.set(assignment)
    out.note(str(session.parameters) or "all as the server has them")


def _save(session: ChatSession, rest: str, out: Terminal) -> None:
    if not rest:
        raise ValueError("/save needs the name of a file")
    session.save(Path(rest).expanduser())
    out.note(f"{rest} is a body for POST /v1/chat/completions")


_COMMANDS: dict[str, tuple[str, _Run]] = {
    "help": ("/help                   this", _help),
    "system": ("/system TEXT            what the system says; nothing without a text", _system),
    "reset": ("/reset                  forget what was said", _reset),
    "params": ("/params NAME=VALUE ...  how answers are drawn; without names, what is set", _params),
    "save": ("/save FILE              write the conversation as JSON", _save),
}
