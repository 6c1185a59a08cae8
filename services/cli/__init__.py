"""The `outrider` command, which runs the services and calls them; each subcommand is a module."""

import argparse
import importlib
from collections.abc import Container
from collections.abc import Sequence as Seq

from services.cli.command_parser import CommandParser, did_you_mean
from services.cli.config_file import ConfigFileError, with_file

_SERVICES = ("target", "draft")  # that have --config FILE
_GROUPS = {
    "try it": {
        "demo": ("services.cli.demo", "start the demo model, or another one, watch it generate, and stop it"),
        "up": ("services.cli.up", "start the demo model, or another one, and say how to call it"),
    },
    "run a service": {
        "target": ("services.target.command", "run the target service"),
        "draft": ("services.draft.command", "run the draft service"),
        "gateway": ("services.gateway.command", "serve OpenAI's HTTP API and others in front of a target"),
    },
    "call a target": {
        "generate": ("services.cli.calls.generate", "continue a prompt and print the text as it streams"),
        "chat": ("services.cli.chat.command", "hold a conversation with the model, in a terminal or through a pipe"),
        "embed": ("services.cli.calls.embed", "print embeddings of texts"),
        "score": ("services.cli.calls.score", "print how likely texts are after a prompt"),
        "verify": ("services.cli.calls.verify", "ask a server whether an answer is what the model gives"),
        "session": ("services.cli.calls.session", "keep the beginning of prompts on a server, under a name"),
    },
    "operate": {
        "health": ("services.cli.health", "print whether a service is ready"),
        "top": ("services.cli.top.command", "watch the figures of a target in a terminal"),
        "admin": ("services.cli.admin", "inspect a running service, and change its state"),
        "token": ("services.cli.token", "make a token that a service accepts"),
        "bench": ("services.bench.command", "measure the decoder, and the services with and without speculation"),
    },
    "models and the shell": {
        "pull": ("services.cli.pull", "download models from the hub to its local cache"),
        "models": ("services.cli.models", "list the models in the hub's local cache, and which of them can be served"),
        "completion": ("services.cli.completion", "print a script that makes a shell complete these commands"),
    },
}
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}


def main(argv: Seq[str]) -> int:
    """Run one command and return its exit code."""
    arguments = read_arguments(argv)
    code: int = arguments.run(arguments)
    return code


def read_arguments(argv: Seq[str]) -> argparse.Namespace:
    """Return the arguments of one command, whose `run` runs it; only the modules of that command are loaded."""
    parser = build_parser(argv[:1])
    if argv and not argv[0].startswith("-") and argv[0] not in _COMMANDS:
        parser.error(f"there is no command {argv[0]}{did_you_mean(argv[0], _COMMANDS)}")
    try:
        return parser.parse_args(with_file(argv) if argv[:1] and argv[0] in _SERVICES else argv)
    except ConfigFileError as error:
        parser.error(str(error))


class _MainParser(CommandParser):
    def format_help(self) -> str:
        """Return the commands in groups, which argparse has for options only."""
        lines = [f"usage: {self.prog} COMMAND [option …]", "", f"{self.description}"]
        for title, commands in _GROUPS.items():
            lines += ["", f"{title}:", *(f"  {name:<11} {summary}" for name, (_, summary) in commands.items())]
        return "\n".join([*lines, "", f"{self.prog} COMMAND --help lists the options of one.", ""])


def build_parser(loaded: Container[str] = tuple(_COMMANDS)) -> CommandParser:
    """Return the parser of all commands, with the options of the commands in `loaded`."""
    parser = _MainParser(prog="outrider", description="Text from a large language model, over gRPC.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, (module_name, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in loaded:
            module = importlib.import_module(module_name)
            module.add_options(command)
            command.set_defaults(run=module.run)
    return parser
