"""outrider score: prints how likely texts are after a prompt."""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence as Seq

from outrider import Scores
from services.cli.calls.ending import exit_code
from services.cli.calls.prompt import add_prompt, read_prompt
from services.cli.calls.readiness import add_client_options, ready_client
from services.cli.terminal import Terminal

_HEADING = "   logprob  per token  tokens  greedy  text"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    add_prompt(parser, "the text before each text")
    parser.add_argument("choices", nargs="+", metavar="TEXT", help="a text to score after the prompt")
    add_client_options(parser)
    parser.add_argument("--model", metavar="NAME", help="which of the server's models (default: its first)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="fail after this time")


def run(arguments: argparse.Namespace) -> int:
    """Score all texts in one call; returns the exit code."""

    def act(out: Terminal, err: Terminal) -> int:
        scores = _score(arguments, err)
        out.heading(_HEADING)
        for row in _rows(scores, arguments.choices):
            out.text(f"{row}\n")
        err.note(f"the likeliest: {arguments.choices[scores.best]!r}")
        return 0

    return exit_code("score", act)


def _score(arguments: argparse.Namespace, err: Terminal) -> Scores:
    prompt = read_prompt(arguments)
    with ready_client(arguments, err) as (client, readiness):
        return readiness.when_ready(
            lambda: client.score(prompt, arguments.choices, model=arguments.model, timeout=arguments.timeout)
        )


def _rows(scores: Scores, texts: Seq[str]) -> Iterator[str]:
    """Yield a row for each text, in the order in which they were given."""
    for score, text in zip(scores.scores, texts, strict=True):
        count = len(score.token_ids)
        is_greedy = "yes" if score.is_greedy else "no"
        yield f"{score.logprob:>10.4f}  {score.logprob / count:>9.4f}  {count:>6}  {is_greedy:>6}  {text!r}"
