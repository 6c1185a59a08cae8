"""The real pair, end to end: `python -m tests.real [PART ...]` fetches it, runs the parts, and prints their figures.

The parts are parity (the logits are those of transformers), exactness (which of both is nearer to float64), answer (it
writes code that runs), equality (no draft, no kill changes a byte), perplexity (what each format costs) and acceptance
(how often the draft is right). Each can be run alone; one that was cut off goes on where it was, as long as the code
and the models are the same.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from services.engine.decoder.weight_choice import STORED
from tests.e2e.harness.models import place
from tests.e2e.matrix.store import store_of_this_build
from tests.real.acceptance import TEMPERATURES, measure_acceptance
from tests.real.answer import ask, merges_sorted_lists
from tests.real.equality import pair_cells, run_cells
from tests.real.exactness import exactness_rows
from tests.real.fetch import DEFAULT_CACHE, FetchError, fetch
from tests.real.figures import Figures
from tests.real.llama_quality import LLAMA_FORMATS, llama_rows
from tests.real.parity import measure_parity
from tests.real.perplexity import HEAD, format_names, perplexity_rows
from tests.real.published import DRAFT, TARGET
from tests.real.texts import SORTED_LISTS, tasks

_NAME = "pair"
_NUM_EXACT = 4  # prompts


@dataclass(frozen=True, slots=True)
class Pair:
    """What is tested, and how: files, or whatever else `--model` takes."""

    target: Path
    draft: Path
    weights: str
    windows: int
    llama_python: Path | None
    cache: Path

    def figures(self, part: str) -> Figures:
        """What has been measured of a part."""
        place(_NAME, target=self.target, draft=self.draft)
        return Figures(store_of_this_build([_NAME]).root / f"{part}-{self.weights}-{self.windows}.json")


def _parity(pair: Pair) -> bool:
    """Print it; returns whether it holds."""
    parity = measure_parity(pair.target)
    print(
        f"{parity.num_prompts} prompts, {parity.num_tokens} positions: logits differ by at most "
        f"{parity.largest_difference:.1e} (the largest is {parity.largest_logit:.1f}), and {parity.other_choices} "
        "positions have another most likely token"
    )
    return parity.is_close


def _answer(pair: Pair) -> bool:
    result = ask(pair.target, pair.draft, weights=pair.weights)
    is_right = merges_sorted_lists(result.text)
    print(f"> {SORTED_LISTS}\n\n{result.text}\n\nIts code merges sorted lists: {'yes' if is_right else 'NO'}")
    return is_right


def _equality(pair: Pair) -> bool:
    cells = pair_cells(_NAME, pair.weights, pair.weights)
    results = run_cells(cells, target=pair.target, draft=pair.draft, say=_say)
    num_passed = sum(not result.problems for result in results)
    print(f"{num_passed} of {len(results)} cells passed")
    return num_passed == len(results)


def _exactness(pair: Pair) -> bool:
    _say("| logits | largest error | root of the mean square | largest logit |\n| --- | --- | --- | --- |")
    for row in exactness_rows(pair.draft, num_prompts=_NUM_EXACT):  # whose float64 half of the machines can hold
        _say(row)
    return True


def _perplexity(pair: Pair) -> bool:
    figures = pair.figures("perplexity")
    _say(HEAD)
    measure = partial(perplexity_rows, pair.target, num_windows=pair.windows)
    for row in figures.rows(format_names(pair.target), measure):
        _say(row)
    if pair.llama_python and pair.target.suffix == ".gguf":
        by_llama = partial(llama_rows, pair.llama_python, pair.target, num_windows=pair.windows, scratch=pair.cache)
        for row in figures.rows(LLAMA_FORMATS, by_llama):
            _say(row)
    return True


def _acceptance(pair: Pair) -> bool:
    wanted = {f"{task} at {temperature:g}": (task, temperature) for task in tasks() for temperature in TEMPERATURES}

    def rows(names: list[str]) -> Iterator[str]:
        chosen = [wanted[name] for name in names]
        for one in measure_acceptance(pair.target, pair.draft, chosen, weights=pair.weights):
            yield one.row

    _say("| task | temperature | accepted | tokens per pass | tokens |\n| --- | --- | --- | --- | --- |")
    for row in pair.figures("acceptance").rows([*wanted], rows):
        _say(row)
    return True


_PARTS: dict[str, Callable[[Pair], bool]] = {
    "parity": _parity,
    "exactness": _exactness,
    "answer": _answer,
    "equality": _equality,
    "perplexity": _perplexity,
    "acceptance": _acceptance,
}


def _say(text: str) -> None:
    print(text, flush=True)


def main(arguments: Seq[str] | None = None) -> int:
    """Run the parts; returns 1 where one fails."""
    options = _parser().parse_args(arguments)
    try:
        target = options.target or fetch(TARGET, options.cache)
        draft = options.draft or fetch(DRAFT, options.cache)
    except FetchError as error:
        print(f"tests.real: {error}", file=sys.stderr)
        return 1
    pair = Pair(target, draft, options.weights, options.windows, options.llama_python, options.cache)
    failed = []
    for name in options.parts or _PARTS:
        _say(f"\n## {name}\n")
        if not _PARTS[name](pair):
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all is well")
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*_PARTS, []], metavar="PART", help=f"{', '.join(_PARTS)} (all)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, metavar="DIR", help="(%(default)s)")
    parser.add_argument("--target", type=Path, metavar="PATH", help="serve this (what is fetched)")
    parser.add_argument("--draft", type=Path, metavar="PATH", help="the same for the draft")
    parser.add_argument("--weights", default=STORED, help="of both, where they are served (%(default)s)")
    parser.add_argument(
        "--windows", type=int, default=8, metavar="N", help="of 512 tokens, of perplexity (%(default)s)"
    )
    parser.add_argument("--llama-python", type=Path, metavar="PROGRAM", help="a Python that has llama_cpp (none)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
