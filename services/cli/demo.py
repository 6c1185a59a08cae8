"""outrider demo: starts a model, streams a few answers, and stops it."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from outrider import Client, GenerateOptions, Message, OutriderError, Prompt, Result
from services.cli.calls.result_text import decode_rate, summary
from services.cli.service_pair import ModelPair, ServicePair, demo_models, running_pair
from services.cli.service_process import ServiceFailedError
from services.cli.terminal import Terminal
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.hub.hub_name import SOURCES, read_source

_MAX_TOKENS = 200
_SEED = 7
_NUM_PREDICTIONS = 4
_TIMED_RUNS, _TIMED_TOKENS = 2, 64  # further pairs of runs of each scene, and the tokens of each
_SLOWER = (
    "That is not faster: here the draft was asked at every pass; by default the server asks it only where that pays. "
    "The larger the target, the more it pays: README.md has figures."
)
_PAGE = "\nthe same in a browser: outrider up --http 127.0.0.1:8000, then http://127.0.0.1:8000/"
_REAL_PAIR = (
    "a real pair: outrider demo --model Qwen/Qwen2.5-Coder-1.5B-Instruct --draft Qwen/Qwen2.5-Coder-0.5B-Instruct"
)


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
                return _show(pair, out, arguments.max_tokens)
        except (CheckpointError, ServiceFailedError, OutriderError) as error:
            log.seek(0)
            err.text(log.read())
            err.error(f"outrider demo: {error}")
            return 1


def _show(pair: ServicePair, out: Terminal, max_tokens: int) -> int:
    """Let the model answer questions if it has a chat template, or else continue texts; returns the exit code."""
    address, load = pair.target.address, os.getloadavg()[0]
    with Client(address) as client:
        info = client.model_info()
        parts = info.fingerprint_parts
        out.note(f"{info.architecture} on {parts.device}, {parts.weight_format} weights, served on {address}")
        if pair.draft:
            out.legend()
        comparisons = []
        scenes = _QUESTIONS if info.has_chat_template else _TEXTS
        for scene in scenes:
            result = _play(scene, client, out, max_tokens)
            if pair.draft:
                comparisons.append(_compared(client, scene, max_tokens, result))
                out.note(str(comparisons[-1]))
        if pair.draft:
            few = min(max_tokens, _TIMED_TOKENS)
            timed = [_compared(client, scene, few) for scene in scenes for _ in range(_TIMED_RUNS)]
            out.note(_speed([*comparisons, *timed], load))
    out.note(_PAGE)
    out.note(_REAL_PAIR)
    return 0 if all(each.is_same for each in comparisons) else 1


def _compared(client: Client, scene: _Scene, max_tokens: int, drafted: Result | None = None) -> "_Comparison":
    drafted = drafted or client.generate(scene.prompt, **_options(scene, max_tokens, predicts=True))
    return _Comparison(drafted, client.generate(scene.prompt, **_options(scene, max_tokens, predicts=False)))


def _speed(comparisons: Iterable["_Comparison"], load: float) -> str:
    """Return what the draft does for the speed; `load` is that of the machine before."""
    ratios = [each.ratio for each in comparisons if each.ratio]
    if not ratios:
        return "\nthe answers are too short to tell their speed"
    text = (
        f"\nspeed: {median(ratios):.2f} × with the draft (median of {len(ratios)} pairs of runs, {min(ratios):.2f} to "
        f"{max(ratios):.2f})."
    )
    if load > (cores := len(os.sched_getaffinity(0))):
        return f"{text} This machine is busy, with a load of {load:.1f} on {cores} cores: its speeds say little."
    return text if median(ratios) >= 1 else f"{text} {_SLOWER}"


def _play(scene: _Scene, client: Client, out: Terminal, max_tokens: int) -> Result:
    out.text("\n")
    out.heading(scene.heading)
    out.text(scene.shown)
    with client.stream(scene.prompt, **_options(scene, max_tokens, predicts=True)) as stream:
        for chunk in stream:
            out.chunk(chunk)
    out.text("\n")
    out.note(summary(stream.result))
    return stream.result


def _options(scene: _Scene, max_tokens: int, *, predicts: bool) -> GenerateOptions:
    """Return a scene's options, with the draft's predictions in every pass or none, and without the lookup's."""
    options = GenerateOptions(max_tokens=max_tokens, temperature=scene.temperature, seed=_SEED, lookup=False)
    if not predicts:
        return {**options, "speculation": "never"}
    return {**options, "speculation": "always", "num_predictions": _NUM_PREDICTIONS, "token_records": True}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One text generated with the draft and again without it."""

    drafted: Result
    alone: Result

    @property
    def is_same(self) -> bool:
        """Whether both have the same tokens, text and end."""
        return all(
            getattr(self.drafted, part) == getattr(self.alone, part) for part in ("token_ids", "text", "finish_reason")
        )

    @property
    def ratio(self) -> float:
        """How many times as fast it was with the draft; 0 if an answer is too short to tell."""
        alone = decode_rate(self.alone)
        return decode_rate(self.drafted) / alone if alone else 0.0

    def __str__(self) -> str:
        drafted, alone = self.drafted.speculation, self.alone.speculation
        return (
            f"{drafted.tokens_per_pass:.2f} tokens per pass with the draft, {drafted.passes} passes in place of "
            f"{alone.passes} · without it: {'the same bytes' if self.is_same else 'OTHER BYTES'}"
        )
