"""outrider embed: prints embeddings of texts."""

import argparse
import json

from services.cli.calls.ending import exit_code
from services.cli.calls.prompt import read_text
from services.cli.calls.readiness import add_client_options, ready_client
from services.cli.terminal import Terminal


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument("texts", nargs="+", metavar="TEXT", help='a text to embed; "-" reads it from standard input')
    add_client_options(parser)
    parser.add_argument("--model", metavar="NAME", help="which of the server's models (default: its first)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="fail after this time")
    parser.add_argument(
        "--pooling", choices=("last", "mean", "cls"), help="which tokens' hidden states (default: last)"
    )
    parser.add_argument("--dimensions", type=int, metavar="N", help="the first N numbers of each vector (default: all)")
    parser.add_argument("--no-normalise", action="store_true", help="do not scale the vectors to length 1")


def run(arguments: argparse.Namespace) -> int:
    """Embed once, and print a list of numbers for each text; returns the exit code."""

    def act(out: Terminal, err: Terminal) -> int:
        for vector in _vectors(arguments, err):
            out.text(f"{json.dumps(vector)}\n")
        return 0

    return exit_code("embed", act)


def _vectors(arguments: argparse.Namespace, err: Terminal) -> list[tuple[float, ...]]:
    texts = [*map(read_text, arguments.texts)]
    with ready_client(arguments, err) as (client, readiness):
        answer = readiness.when_ready(
            lambda: client.embed(
                texts,
                model=arguments.model,
                timeout=arguments.timeout,
                pooling=arguments.pooling,
                dimensions=arguments.dimensions,
                normalised=False if arguments.no_normalise else None,
            )
        )
    return [each.values for each in answer.embeddings]
