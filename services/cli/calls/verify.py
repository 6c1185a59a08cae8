"""outrider verify: asks a server whether an answer is what the model gives."""

import argparse
from pathlib import Path

from outrider import Proof, Verdict
from services.cli.calls.ending import exit_code
from services.cli.calls.readiness import add_client_options, ready_client
from services.cli.terminal import Terminal


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument("proof", type=Path, metavar="FILE", help="what `outrider generate --proof FILE` has written")
    add_client_options(parser)
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="fail after this time")


def run(arguments: argparse.Namespace) -> int:
    """Verify one answer; returns 0 if it is equal, 1 if it is not, or could not be verified."""

    def act(out: Terminal, err: Terminal) -> int:
        proof = Proof.from_json(arguments.proof.read_text())
        verdict = _verify(arguments, proof, err)
        if verdict.is_equal:
            passes = f" in {verdict.passes} passes" if verdict.passes else ""
            out.text(f"equal: {len(proof.token_ids)} tokens{passes}\n")
            return 0
        out.text(f"not equal: {verdict.reason}\n")
        return 1

    return exit_code("verify", act)


def _verify(arguments: argparse.Namespace, proof: Proof, err: Terminal) -> Verdict:
    with ready_client(arguments, err) as (client, readiness):
        return readiness.when_ready(lambda: client.verify(proof, timeout=arguments.timeout))
