"""outrider demo: the demo model, live, from start to stop."""

import argparse
import sys
import tempfile

from outrider import Chunk, Client, GenerateOptions, OutriderError
from services.cli.result_text import summary
from services.cli.service_pair import demo_models, running_pair
from services.cli.service_process import ServiceFailedError
from services.cli.terminal import Terminal

_STACK = '''class Stack:
    """A last-in, first-out stack."""

    def __init__(self):
        self._items = []

'''
_PROMPTS = (
    ("drawn at temperature 0.7", _STACK, 0.7),
    ("greedy", "import argparse\nimport sys\n\n\ndef main(argv=None):\n", 0.0),
    ("drawn at temperature 0.7", "def read_config(path):\n", 0.7),
)
_MAX_TOKENS = 120
_SEED = 7
_NUM_PREDICTIONS = 4


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument("--max-tokens", type=int, default=_MAX_TOKENS, metavar="N", help="per prompt (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Start the demo model, let it continue a few prompts, stop it; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    models = demo_models()
    if models is None:
        err.error("outrider demo: there is no models/demo here; run it in a checkout")
        return 1
    with tempfile.TemporaryFile("w+") as log:
        try:
            with running_pair(models, log=log) as pair:
                _show(pair.target.address, out, arguments.max_tokens)
        except (ServiceFailedError, OutriderError) as error:
            log.seek(0)
            err.text(log.read())
            err.error(f"outrider demo: {error}")
            return 1
    return 0


def _show(address: str, out: Terminal, max_tokens: int) -> None:
    with Client(address) as client:
        info = client.model_info()
        parts = info.fingerprint_parts
        out.note(f"{info.architecture} on {parts.device}, {parts.weight_format} weights, served on {address}")
        for how, prompt, temperature in _PROMPTS:
            out.text("\n")
            out.heading(f"── {prompt.splitlines()[0]} … {how} ──")
            out.text(prompt)
            options = GenerateOptions(
                max_tokens=max_tokens,
                temperature=temperature,
                seed=_SEED,
                speculation="always",
                num_predictions=_NUM_PREDICTIONS,
                lookup=False,  # what is shown in colour is the draft's
                token_records=True,
            )
            with client.stream(prompt, **options) as stream:
                for chunk in stream:
                    _write(chunk, out)
            out.text("\n")
            out.note(summary(stream.result))


def _write(chunk: Chunk, out: Terminal) -> None:
    """Write a chunk's text, what had been predicted in colour; text that was held back in part has no colour."""
    if "".join(token.text for token in chunk.tokens) != chunk.text:
        out.text(chunk.text)
        return
    for token in chunk.tokens:
        if token.predicted:
            out.predicted(token.text)
        else:
            out.text(token.text)
