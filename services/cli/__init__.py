"""The `outrider` command, a module for each subcommand: it runs the services and talks to them."""

import argparse
import importlib
import sys
from collections.abc import Container
from collections.abc import Sequence as Seq

_COMMANDS = {
    "up": ("services.cli.up", "start the demo model, or another one, and say how to call it"),
    "demo": ("services.cli.demo", "start the demo model, or another one, watch it write, stop it"),
    "target": ("services.target.command", "run the target service"),
    "draft": ("services.draft.command", "run the draft service"),
    "gateway": ("services.gateway.command", "speak HTTP in front of a target, as OpenAI's API and others do"),
    "generate": ("services.cli.calls.generate", "continue a prompt and print the text as it streams"),
    "embed": ("services.cli.calls.embed", "print vectors of texts"),
    "score": ("services.cli.calls.score", "say how likely texts are behind a prompt"),
    "session": ("services.cli.calls.session", "have a server hold the beginning of prompts, by a name"),
    "chat": ("services.cli.chat.command", "hold a conversation with the model, in a terminal or through a pipe"),
    "health": ("services.cli.health", "say whether a service is ready"),
    "top": ("services.cli.top.command", "watch what a target does, in a terminal"),
    "admin": ("services.cli.admin", "ask a running service what it is at, and steer it"),
    "token": ("services.cli.token", "make a token that a service accepts"),
    "pull": ("services.cli.pull", "download models from the hub, for services to find them"),
    "models": ("services.cli.models", "list the models of the hub's cache, and say which can be served"),
    "completion": ("services.cli.completion", "write what makes a shell complete these commands"),
    "bench": ("services.bench.command", "measure the decoder, and the services with and without speculation"),
}


def main(argv: Seq[str] | None = None) -> int:
    """Run one command and return its exit code; only the modules of that command are loaded."""
    argv = sys.argv[1:] if argv is None else list(argv)
    arguments = build_parser(argv[:1]).parse_args(argv)
    code: int = arguments.run(arguments)
    return code


def build_parser(loaded: Container[str] = tuple(_COMMANDS)) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of those that are to be loaded."""
    parser = argparse.ArgumentParser(prog="outrider", description="Text from a large language model, over gRPC.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module_name, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in loaded:
            module = importlib.import_module(module_name)
            module.add_options(command)
            command.set_defaults(run=module.run)
    return parser
