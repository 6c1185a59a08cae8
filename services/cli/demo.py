"""outrider demo: starts a model, streams a few answers, and stops it."""

import argparse
import sys
import tempfile
from dataclasses import dataclass

from outrider import Client, GenerateOptions, Message, OutriderError, Prompt
from services.cli.calls.result_text import summary
from services.cli.service_pair import ModelPair, ServicePair, demo_models, running_pair
from services.cli.service_process import ServiceFailedError
from services.cli.terminal import Terminal
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.hub.hub_name import SOURCES, read_source

_MAX_TOKENS = 200
_SEED = 7
_NUM_PREDICTIONS = 4
_PAGE = "\nthe same in a browser: outrider up --http 127.0.0.1:8000, then http://127.0.0.1:8000/"


@dataclass(frozen=True, slots=True)
class _Scene:
    """One prompt, and the text that is printed before the model's answer."""

    title: str
    shown: str
    prompt: Prompt
    temperature: float

    @property
    def heading(self) -> str:
        how = f"drawn at temperature {self.temperature}" if self.temperature else "greedy"
        return f"── {self.title} … {how} ──"


def _begun(text: str, temperature: float) -> _Scene:
    """Return the scene of a text to continue."""
    return _Scene(text.splitlines()[0], text, text, temperature)


def _asked(question: str, temperature: float) -> _Scene:
    """Return the scene of a question to answer."""
    return _Scene("a question", f"> {question}\n\n", [Message("user", question)], temperature)


_TEXTS = (
    _begun("def average(numbers: list) -> float:\n", 0.0),
    _begun("def binary_search(items, target):\n", 0.0),
    _begun("def reverse_words(sentence: str) -> str:\n", 0.7),
)
_QUESTIONS = (
    _asked("Write a Python function that merges two sorted lists. Answer with the code only.", 0.0),
    _asked("What is a hash table good for? Answer in two sentences.", 0.7),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument("--model", type=read_source, help=f"{SOURCES} (default: the demo model)")
    parser.add_argument("--draft", type=read_source, metavar="MODEL", help="the draft's model, with --model")
    parser.add_argument("--max-tokens", type=int, default=_MAX_TOKENS, metavar="N", help="per prompt (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Start the model, let it answer a few prompts, stop it; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    if arguments.draft and not arguments.model:
        err.error("outrider demo: --draft is the draft of --model, which is not given")
        return 1
    models = ModelPair(arguments.model, arguments.draft) if arguments.model else demo_models()
    if models is None:
        err.error("outrider demo: there is no demo model here; name a model with --model")
        return 1
    with tempfile.TemporaryFile("w+") as log:
        try:
            with running_pair(models.fetched(), log=log) as pair:
                _show(pair, out, arguments.max_tokens)
        except (CheckpointError, ServiceFailedError, OutriderError) as error:
            log.seek(0)
            err.text(log.read())
            err.error(f"outrider demo: {error}")
            return 1
    return 0


def _show(pair: ServicePair, out: Terminal, max_tokens: int) -> None:
    """Let the model answer questions if it has a chat template, or else continue texts."""
    address = pair.target.address
    with Client(address) as client:
        info = client.model_info()
        parts = info.fingerprint_parts
        out.note(f"{info.architecture} on {parts.device}, {parts.weight_format} weights, served on {address}")
        if pair.draft:
            out.legend()
        for scene in _QUESTIONS if info.has_chat_template else _TEXTS:
            _play(scene, client, out, max_tokens)
    out.note(_PAGE)


def _play(scene: _Scene, client: Client, out: Terminal, max_tokens: int) -> None:
    out.text("\n")
    out.heading(scene.heading)
    out.text(scene.shown)
    options = GenerateOptions(
        max_tokens=max_tokens,
        temperature=scene.temperature,
        seed=_SEED,
        speculation="always",
        num_predictions=_NUM_PREDICTIONS,
        lookup=False,  # the colour marks the draft's predictions
        token_records=True,
    )
    with client.stream(scene.prompt, **options) as stream:
        for chunk in stream:
            out.chunk(chunk)
    out.text("\n")
    out.note(summary(stream.result))
