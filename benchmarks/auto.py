"""AUTO beside NEVER and every fixed number of predictions: `python -m benchmarks.auto TARGET DRAFT --json FILE`.

Lookup is off. Each part appends lines to the JSON file:

- `one`: one stream, each prompt in all ways in turn on one pair of services;
- `first`: the first answer of a fresh pair, with AUTO, for each prompt, and then all other ways in turn;
- `streams`: many streams at once, in all ways in turn;
- `bad`: drafts that are silent or slow, or a useless model, NEVER and AUTO in turn.

`python -m benchmarks.auto_summary FILE...` prints the tables.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.drafts.bad_draft import running_bad_draft
from benchmarks.prompts.kinds import DOCUMENT, KINDS, mixed_prompts, prompts_of
from outrider import Client, GenerateOptions, Result
from services.bench.contender import AUTO, PLAIN, Way, fixed
from services.cli.service_pair import PLACEMENTS, ModelPair, running_pair
from services.cli.service_process import ServiceProcess

PARTS = ("one", "first", "streams", "bad")
_DOCUMENT_TOKENS = 2048
_WARM_TOKENS = 32
_BAD_TOKENS = 256
_USELESS = "useless"


def main() -> None:
    """Measure the chosen parts, and append a line for each answer."""
    parser = _parser()
    arguments = parser.parse_args()
    if "bad" in arguments.parts and _USELESS in arguments.drafts and arguments.useless is None:
        parser.error("--useless names no folder; a useless draft needs one, or leave it out with --drafts slow silent")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    with _busy(arguments.busy), arguments.json.open("a") as out:
        for part in arguments.parts:
            for line in {"one": _one, "first": _first, "streams": _streams, "bad": _bad}[part](arguments):
                known = {"part": part, "weights": arguments.weights, "busy": arguments.busy, "label": arguments.label}
                text = json.dumps(known | line)
                print(text, flush=True)
                print(text, file=out, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="(%(default)s)")
    parser.add_argument("--weights", default="int8", help="of the target (%(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of prompts (%(default)s)")
    parser.add_argument("--prompts", type=int, default=2, metavar="N", help="of each kind (%(default)s)")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7], metavar="T")
    parser.add_argument("--lengths", type=int, nargs="*", default=[1, 2, 3, 4, 6, 8], help="fixed numbers")
    parser.add_argument("--new-tokens", type=int, default=64, help="of each answer (%(default)s)")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--rounds", type=int, default=2, help="of each number of streams (%(default)s)")
    parser.add_argument("--drafts", nargs="+", default=[_USELESS, "slow", "silent"], help="bad ones (%(default)s)")
    parser.add_argument("--useless", type=Path, help="the folder of a bad model of the same vocabulary")
    parser.add_argument("--cores", choices=PLACEMENTS, default="shared", help="as for `outrider up` (%(default)s)")
    parser.add_argument("--busy", action="store_true", help="beside a process that computes all the time")
    parser.add_argument("--weights-cache", metavar="DIR", help="the option of the services")
    parser.add_argument("--label", default="", help="a word for the tables, such as the policy's name")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--log", type=Path, default=Path("/dev/null"))
    return parser


def _one(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    ways = (PLAIN, AUTO, *map(fixed, arguments.lengths))
    with _pair(arguments) as client:
        prompts = _prompts(client, arguments)
        for way in (PLAIN, AUTO):
            _answer(client, prompts[0][1], way, 0.7, _WARM_TOKENS)
        for turn, (kind, prompt) in enumerate(prompts):
            for temperature in arguments.temperatures:
                first = turn % len(ways)
                for way in (*ways[first:], *ways[:first]):
                    yield _line(client, kind, prompt, way, temperature, arguments.new_tokens)


def _first(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with _pair(arguments) as client:
        prompts = _prompts(client, arguments)
    for kind, prompt in prompts:
        for temperature in arguments.temperatures:
            with _pair(arguments) as client:  # the other ways in the same minute, to compare with
                for way in (AUTO, PLAIN, *map(fixed, arguments.lengths)):
                    yield _line(client, kind, prompt, way, temperature, arguments.new_tokens)


def _streams(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with _pair(arguments) as client:
        for count in arguments.streams:
            prompts = mixed_prompts(client, count)
            _together(client, prompts, PLAIN, arguments.new_tokens)  # the first run of a size is up to 10 % slower
            for turn in range(arguments.rounds):
                ways = (PLAIN, AUTO, *map(fixed, arguments.lengths))
                for way in ways if turn % 2 else ways[::-1]:
                    yield {"streams": count, "turn": turn} | _together(client, prompts, way, arguments.new_tokens)


def _together(client: Client, prompts: Seq[Seq[int]], way: Way, num_tokens: int) -> dict[str, Any]:
    """Answer all prompts at once; the rate is that of all tokens from the first that came to the last."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(prompts)) as pool:
        results = [*pool.map(lambda prompt: _answer(client, prompt, way, 0.0, num_tokens), prompts)]
    rates = [_rate(result) for result in results]
    return {
        "way": way.name,
        "rate": sum(len(result.token_ids) for result in results) / (time.perf_counter() - began),
        "slowest": min(rates),
        "tokens_per_pass": fmean(result.speculation.tokens_per_pass for result in results),
        "speedup": fmean(result.speculation.speedup for result in results),
        "expected_speedup": fmean(result.speculation.expected_speedup for result in results),
    }


def _bad(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for draft in arguments.drafts:
        with ExitStack() as stack:
            address = stack.enter_context(running_bad_draft(draft)) if draft != _USELESS else None
            client = stack.enter_context(_pair(arguments, address, model=arguments.useless))
            prompt = mixed_prompts(client, 1)[0]
            for turn in range(2 * arguments.rounds):
                for way in (PLAIN, AUTO) if turn % 2 else (AUTO, PLAIN):
                    yield {"draft": draft, "turn": turn} | _line(client, "chat", prompt, way, 0.0, _BAD_TOKENS)


def _line(client: Client, kind: str, prompt: Seq[int], way: Way, temperature: float, num_tokens: int) -> dict[str, Any]:
    result = _answer(client, prompt, way, temperature, num_tokens)
    speculation = result.speculation
    return {
        "kind": kind,
        "prompt": hash(tuple(prompt)) % 10_000,
        "prompt_tokens": len(prompt),
        "new_tokens": num_tokens,
        "temperature": temperature,
        "way": way.name,
        "rate": _rate(result),
        "tokens_per_pass": speculation.tokens_per_pass,
        "speedup": speculation.speedup,
        "expected_speedup": speculation.expected_speedup,
        "why": speculation.no_speculation_detail,
    }


def _rate(result: Result) -> float:
    return (len(result.token_ids) - 1) / result.timings.decode


def _answer(client: Client, prompt: Seq[int], way: Way, temperature: float, num_tokens: int) -> Result:
    options = GenerateOptions(
        max_tokens=num_tokens,
        ignore_eos=True,
        temperature=temperature,
        seed=1,
        prefix_cache=False,
        lookup=False,
        speculation={None: "auto", 0: "never"}.get(way.num_predictions, "always"),  # type: ignore[typeddict-item]
    )
    if way.num_predictions:
        options["num_predictions"] = way.num_predictions
    return client.generate(prompt, **options)


def _prompts(client: Client, arguments: argparse.Namespace) -> list[tuple[str, tuple[int, ...]]]:
    prompts = []
    for kind in arguments.kinds:
        count = 1 if kind == DOCUMENT else arguments.prompts
        prompts += [(kind, each[:_DOCUMENT_TOKENS]) for each in prompts_of(client, kind)[:count]]
    return prompts


@contextmanager
def _pair(arguments: argparse.Namespace, draft: str | None = None, model: Path | None = None) -> Iterator[Client]:
    """Run a target with its draft, with another model as the draft, or with the draft at an address."""
    cached = ["--weights-cache", arguments.weights_cache] if arguments.weights_cache else []
    options = ["--weights", arguments.weights, "--max-sequences", str(max(arguments.streams)), *cached]
    cores = PLACEMENTS[arguments.cores]()
    with ExitStack() as stack:
        log = stack.enter_context(arguments.log.open("a"))
        if draft is None:
            models = ModelPair(arguments.target, model or arguments.draft).fetched()
            drafts = ["--weights", "auto", "--max-sequences", str(max(arguments.streams)), *cached]
            pair = running_pair(models, options=options, draft_options=drafts, cores=cores, log=log)
            address = stack.enter_context(pair).target.address
        else:
            options += ["--model", str(arguments.target), "--listen", "127.0.0.1:0", "--draft", draft]
            target = stack.enter_context(ServiceProcess("target", options, cores=cores.target, log=log))
            target.wait_until_serving()
            address = target.address
        yield stack.enter_context(Client(address))


@contextmanager
def _busy(is_busy: bool) -> Iterator[None]:
    process = multiprocessing.Process(target=_spin, daemon=True)
    if is_busy:
        process.start()
    try:
        yield
    finally:
        if is_busy:
            process.kill()
            process.join()


def _spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
