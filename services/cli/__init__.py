"""The `outrider` command, which runs the services and calls them; each subcommand is a module."""

import argparse
import importlib
import sys
from collections.abc import Container
from collections.abc import Sequence as Seq

from services.cli.config_file import ConfigFileError, with_file

_SERVICES = ("target", "draft")  # that have --config FILE
_COMMANDS = {
    "up": ("services.cli.up", "start the demo model, or another one, and say how to call it"),
    "demo": ("services.cli.demo", "start the demo model, or another one, watch it generate, and stop it"),
    "target": ("services.target.command", "run the target service"),
    "draft": ("services.draft.command", "run the draft service"),
    "gateway": ("services.gateway.command", "serve OpenAI's HTTP API and others in front of a target"),
    "generate": ("services.cli.calls.generate", "continue a prompt and print the text as it streams"),
    "embed": ("services.cli.calls.embed", "print embeddings of texts"),
    "score": ("services.cli.calls.score", "print how likely texts are after a prompt"),
    "session": ("services.cli.calls.session", "keep the beginning of prompts on a server, under a name"),
    "chat": ("services.cli.chat.command", "hold a conversation with the model, in a terminal or through a pipe"),
    "health": ("services.cli.health", "print whether a service is ready"),
    "top": ("services.cli.top.command", "watch the figures of a target in a terminal"),
    "admin": ("services.cli.admin", "inspect a running service, and change its state"),
    "token": ("services.cli.token", "make a token that a service accepts"),
    "pull": ("services.cli.pull", "download models from the hub to its local cache"),
    "models": ("services.cli.models", "list the models in the hub's local cache, and which of them can be served"),
    "completion": ("services.cli.completion", "print a script that makes a shell complete these commands"),
    "bench": ("services.bench.command", "measure the decoder, and the services with and without speculation"),
}


def main(argv: Seq[str] | None = None) -> int:
    """Run one command and return its exit code; only the modules of that command are loaded."""
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = build_parser(argv[:1])
    try:
        arguments = parser.parse_args(with_file(argv) if argv[:1] and argv[0] in _SERVICES else argv)
    except ConfigFileError as error:
        parser.error(str(error))
    code: int = arguments.run(arguments)
    return code


def build_parser(loaded: Container[str] = tuple(_COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the options of the commands in `loaded`."""
    parser = argparse.ArgumentParser(prog="outrider", description="Text from a large language model, over gRPC.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module_name, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in loaded:
            module = importlib.import_module(module_name)
            module.add_options(command)
            command.set_defaults(run=module.run)
    return parser
