"""outrider score: says how likely texts are behind a prompt."""

import argparse
import sys
from collections.abc import Iterator
from collections.abc import Sequence as Seq

from outrider import InvalidArgument, Message, OutriderError, Prompt, Scores
from services.cli.readiness import add_client_options, ready_client
from services.cli.terminal import INTERRUPTED, UNREAD, Terminal

_HEADING = "   logprob  per token  tokens  greedy  text"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument("prompt", help='what comes before each text; "-" reads it from standard input')
    parser.add_argument("choices", nargs="+", metavar="TEXT", help="what is to be scored behind the prompt, as it is")
    add_client_options(parser)
    parser.add_argument("--model", metavar="NAME", help="which of the server's models (default: its first)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="fail after this time")
    parser.add_argument("--chat", action="store_true", help="send the prompt as a user's message in a conversation")


def run(arguments: argparse.Namespace) -> int:
    """Score once; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    try:
        scores = _score(arguments, err)
        out.heading(_HEADING)
        for row in _rows(scores, arguments.choices):
            out.text(f"{row}\n")
    except InvalidArgument as error:
        err.refusal(error)
        return 1
    except BrokenPipeError:
        out.discard()
        return UNREAD
    except (OutriderError, OSError, ValueError) as error:
        err.error(f"outrider score: {error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    err.note(f"the likeliest: {arguments.choices[scores.best]!r}")
    return 0


def _score(arguments: argparse.Namespace, err: Terminal) -> Scores:
    text: str = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    prompt: Prompt = [Message("user", text)] if arguments.chat else text
    with ready_client(arguments, err) as (client, readiness):
        return readiness.when_ready(
            lambda: client.score(prompt, arguments.choices, model=arguments.model, timeout=arguments.timeout)
        )


def _rows(scores: Scores, texts: Seq[str]) -> Iterator[str]:
    """One for each text, in the order in which they were given."""
    for score, text in zip(scores.scores, texts, strict=True):
        count = len(score.token_ids)
        is_greedy = "yes" if score.is_greedy else "no"
        yield f"{score.logprob:>10.4f}  {score.logprob / count:>9.4f}  {count:>6}  {is_greedy:>6}  {text!r}"
