"""outrider demo: starts a model, streams a few answers, and stops it."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import IO

from outrider import Client, GenerateOptions, Message, OutriderError, Prompt, Result
from services.cli.calls.result_text import decode_rate, summary
from services.cli.service_pair import ModelPair, demo_models, running_pair
from services.cli.service_process import ServiceFailedError
from services.cli.terminal import Terminal
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.hub.hub_name import SOURCES, read_source

_MAX_TOKENS = 200
_SEED = 7
_NUM_PREDICTIONS = {"the draft": 4, "the head": 3}  # by ModelPair.predictor
_TIMED_RUNS, _TIMED_TOKENS = 2, 64  # further pairs of runs of each scene, and the tokens of each
_SLOWER = (
    "That is not faster: here it was asked at every pass; by default the server asks it only where that pays. The "
    "larger the target, the more it pays: README.md has figures."
)
_PAGE = "the same in a browser: outrider up --http 127.0.0.1:8000, then http://127.0.0.1:8000/"
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
    draft = "model of a draft service, or a head trained for --model"
    parser.add_argument("--draft", type=read_source, metavar="MODEL", help=draft)
    parser.add_argument("--max-tokens", type=int, default=_MAX_TOKENS, metavar="N", help="per prompt (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Start the model, let it answer a few prompts, stop it; the demo model does it again with its head.

    Returns the exit code.
    """
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    if arguments.draft and not arguments.model:
        err.error("outrider demo: --draft is the draft of --model, which is not given")
        return 1
    shown = [ModelPair(arguments.model, arguments.draft)] if arguments.model else _demo_models()
    if not shown:
        err.error("outrider demo: there is no demo model here; name a model with --model")
        return 1
    with tempfile.TemporaryFile("w+") as log:
        try:
            load = os.getloadavg()[0]
            are_same = [_show(models.fetched(), out, arguments.max_tokens, load, log) for models in shown]
            out.note(_PAGE)
            out.note(_REAL_PAIR)
            return 0 if all(are_same) else 1
        except (CheckpointError, ServiceFailedError, OutriderError) as error:
            log.seek(0)
            err.text(log.read())
            err.error(f"outrider demo: {error}")
            return 1


def _demo_models() -> list[ModelPair]:
    pairs = (demo_models(with_head=with_head) for with_head in (False, True))
    return [pair for pair in pairs if pair is not None]


def _show(models: ModelPair, out: Terminal, max_tokens: int, load: float, log: IO[str]) -> bool:
    """Let the model answer questions if it has a chat template, or else continue texts; returns whether each answer has
    the same bytes without predictions. `load` is that of the machine before.
    """
    with running_pair(models, log=log) as pair, Client(pair.target.address) as client:
        info = client.model_info()
        predictor = models.predictor or ("the head" if info.head else "")
        parts = info.fingerprint_parts
        way = f", with {predictor}" if predictor else ""
        out.note(f"{info.architecture} on {parts.device}, {parts.weight_format} weights, on {pair.target.address}{way}")
        if predictor:
            out.legend(predictor)
        comparisons = []
        scenes = _QUESTIONS if info.has_chat_template else _TEXTS
        for scene in scenes:
            result = _play(scene, client, out, max_tokens, predictor)
            if predictor:
                comparisons.append(_compared(client, scene, max_tokens, predictor, result))
                out.note(str(comparisons[-1]))
        if predictor:
            few = min(max_tokens, _TIMED_TOKENS)
            timed = [_compared(client, scene, few, predictor) for scene in scenes for _ in range(_TIMED_RUNS)]
            out.note(_speed([*comparisons, *timed], predictor, load))
    return all(each.is_same for each in comparisons)


def _compared(
    client: Client, scene: _Scene, max_tokens: int, predictor: str, predicted: Result | None = None
) -> "_Comparison":
    predicted = predicted or client.generate(scene.prompt, **_options(scene, max_tokens, predictor))
    return _Comparison(predictor, predicted, client.generate(scene.prompt, **_options(scene, max_tokens)))


def _speed(comparisons: Iterable["_Comparison"], predictor: str, load: float) -> str:
    """Return what the predictor does for the speed; `load` is that of the machine before."""
    ratios = [each.ratio for each in comparisons if each.ratio]
    if not ratios:
        return "\nthe answers are too short to tell their speed\n"
    runs = f"median of {len(ratios)} pairs of runs, {min(ratios):.2f} to {max(ratios):.2f}"
    text = f"\nspeed: {median(ratios):.2f} × with {predictor} ({runs})."
    if load > (cores := len(os.sched_getaffinity(0))):
        return f"{text} This machine is busy, with a load of {load:.1f} on {cores} cores: its speeds say little.\n"
    return f"{text}\n" if median(ratios) >= 1 else f"{text} {_SLOWER}\n"


def _play(scene: _Scene, client: Client, out: Terminal, max_tokens: int, predictor: str) -> Result:
    out.text("\n")
    out.heading(scene.heading)
    out.text(scene.shown)
    with client.stream(scene.prompt, **_options(scene, max_tokens, predictor)) as stream:
        for chunk in stream:
            out.chunk(chunk)
    out.text("\n")
    out.note(summary(stream.result))
    return stream.result


def _options(scene: _Scene, max_tokens: int, predictor: str = "") -> GenerateOptions:
    """Return a scene's options, with the predictor's predictions in every pass or none, and without the lookup's."""
    options = GenerateOptions(max_tokens=max_tokens, temperature=scene.temperature, seed=_SEED, lookup=False)
    if not predictor:
        return {**options, "speculation": "never"}
    return {**options, "speculation": "always", "num_predictions": _NUM_PREDICTIONS[predictor], "token_records": True}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One text generated with a predictor and again without it."""

    predictor: str
    predicted: Result
    alone: Result

    @property
    def is_same(self) -> bool:
        """Whether both have the same tokens, text and end."""
        return all(
            getattr(self.predicted, part) == getattr(self.alone, part)
            for part in ("token_ids", "text", "finish_reason")
        )

    @property
    def ratio(self) -> float:
        """How many times as fast it was with the predictor; 0 if an answer is too short to tell."""
        alone = decode_rate(self.alone)
        return decode_rate(self.predicted) / alone if alone else 0.0

    def __str__(self) -> str:
        predicted, alone = self.predicted.speculation, self.alone.speculation
        return (
            f"{predicted.tokens_per_pass:.2f} tokens per pass with {self.predictor}, {predicted.passes} passes instead "
            f"of {alone.passes} · without it: {'the same bytes' if self.is_same else 'OTHER BYTES'}"
        )
