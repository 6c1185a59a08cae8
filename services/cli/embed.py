"""outrider embed: prints vectors of texts."""

import argparse
import json
import sys

from outrider import InvalidArgument, OutriderError
from services.cli.readiness import add_client_options, ready_client
from services.cli.terminal import INTERRUPTED, UNREAD, Terminal


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument("texts", nargs="+", metavar="TEXT", help='what to embed; "-" reads it from standard input')
    add_client_options(parser)
    parser.add_argument("--model", metavar="NAME", help="which of the server's models (default: its first)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="fail after this time")
    parser.add_argument(
        "--pooling", choices=("last", "mean", "cls"), help="which tokens' hidden states (default: last)"
    )
    parser.add_argument("--dimensions", type=int, metavar="N", help="how many numbers of each vector (default: all)")
    parser.add_argument("--no-normalise", action="store_true", help="leave the vectors as long as they are")


def run(arguments: argparse.Namespace) -> int:
    """Embed once, and print a list of numbers for each text; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    try:
        for vector in _vectors(arguments, err):
            out.text(f"{json.dumps(vector)}\n")
    except InvalidArgument as error:
        err.refusal(error)
        return 1
    except BrokenPipeError:
        out.discard()
        return UNREAD
    except (OutriderError, OSError, ValueError) as error:
        err.error(f"outrider embed: {error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _vectors(arguments: argparse.Namespace, err: Terminal) -> list[tuple[float, ...]]:
    texts = [sys.stdin.read() if text == "-" else text for text in arguments.texts]
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
