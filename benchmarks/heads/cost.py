"""The cost of a head: `python -m benchmarks.heads.cost TARGET [HEAD] --weights FORMAT...`.

For each format of the weights: the median time of a pass without predictions and of one that verifies some, and of what
the drafter computes before it, for each number of predictions; a further prediction's time as a share of a plain pass;
and how many times as many tokens per second one stream gets with AUTO as with NEVER, in turn.
"""

import argparse
from pathlib import Path
from statistics import median

from outrider import Client, GenerateOptions, PassReport, Result
from services.cli.calls.result_text import decode_rate
from services.cli.service_pair import ModelPair, running_pair

_LENGTHS = (1, 3, 5)
_PROMPT = "def merge(left, right):\n    " * 8


def main() -> None:
    """Measure, and print a row of a table for each format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("head", type=Path, nargs="?", help="(default: the target's own layer)")
    parser.add_argument("--weights", nargs="+", default=["bf16", "int8", "int4"])
    parser.add_argument("--device", default="cpu", help="(%(default)s)")
    parser.add_argument("--tokens", type=int, default=96, help="of each answer (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--regex", help="what the answers must follow, so that each token depends on a mask")
    arguments = parser.parse_args()
    lengths = " | ".join(f"predictions: {k}; head, pass, ms" for k in _LENGTHS)
    brought = "tokens a pass with AUTO | speed with AUTO, with NEVER = 1"
    print(f"| weights | pass, ms | {lengths} | a further prediction, share of a pass | {brought} |")
    print("|---|---|" + "---|" * (len(_LENGTHS) + 3))
    models = ModelPair(arguments.target, arguments.head).fetched()
    for weights in arguments.weights:
        options = ["--weights", weights, "--device", arguments.device]
        with running_pair(models, options=options) as pair, Client(pair.target.address) as client:
            print(_row(client, weights, arguments), flush=True)


def _row(client: Client, weights: str, arguments: argparse.Namespace) -> str:
    plain: list[float] = []
    drafting: dict[int, list[float]] = {length: [] for length in _LENGTHS}
    verifying: dict[int, list[float]] = {length: [] for length in _LENGTHS}
    ratios, per_pass = [], []
    for turn in range(arguments.rounds):
        never = _answer(client, turn, arguments, 0)
        plain += [report.verifying for report in _passes(never)]
        for length in _LENGTHS:
            passes = _passes(_answer(client, turn, arguments, length))
            full = [report for report in passes if report.predicted == length]
            drafting[length] += [report.waiting for report in full]
            verifying[length] += [report.verifying for report in full]
        auto = _answer(client, turn, arguments, None)
        ratios.append(decode_rate(auto) / decode_rate(never))
        per_pass.append(auto.speculation.tokens_per_pass)
    of_pass = median(plain)
    first, last = _LENGTHS[0], _LENGTHS[-1]
    step = (median(drafting[last]) - median(drafting[first])) / (last - first)
    pairs = [f"{1e3 * median(drafting[length]):.2f}, {1e3 * median(verifying[length]):.1f}" for length in _LENGTHS]
    brought = f"{median(per_pass):.2f} | {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"| {weights} | {1e3 * of_pass:.1f} | {' | '.join(pairs)} | {step / of_pass:.3f} | {brought} |"


def _passes(result: Result) -> tuple[PassReport, ...]:
    """All but the first, which reads the prompt, and the next one, before which the drafter reads it."""
    return result.pass_reports[2:]


def _answer(client: Client, seed: int, arguments: argparse.Namespace, num_predictions: int | None) -> Result:
    options = GenerateOptions(
        max_tokens=arguments.tokens,
        regex=arguments.regex,
        ignore_eos=True,
        temperature=0.8,
        seed=seed,
        prefix_cache=False,
        lookup=False,
        pass_reports=True,
        speculation={None: "auto", 0: "never"}.get(num_predictions, "always"),  # type: ignore[typeddict-item]
    )
    if num_predictions:
        options["num_predictions"] = num_predictions
    return client.generate(f"{_PROMPT}# {seed}", **options)


if __name__ == "__main__":
    main()
