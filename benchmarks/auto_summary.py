"""The tables of `benchmarks.auto`: `python -m benchmarks.auto_summary FILE...`."""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]


def main() -> None:
    """Print a table for each label, format and part."""
    lines = [json.loads(text) for path in sys.argv[1:] for text in Path(path).read_text().splitlines()]
    for (label, weights, busy), group in _by(lines, lambda line: (line["label"], line["weights"], line["busy"])):
        print(f"\n{label or 'auto'}, {weights}{', beside a busy process' if busy else ''}")
        parts = dict(_by(group, lambda line: line["part"]))
        for part in ("one", "first"):
            _print_ways(part, parts.get(part, ()))
        _print_pairs(parts.get("streams", ()), "streams")
        _print_pairs(parts.get("bad", ()), "draft")


def _print_ways(part: str, lines: Seq[Line]) -> None:
    """For each setting AUTO's rate over that of the best fixed number, the geometric mean over all prompts."""
    for setting, group in _by(lines, lambda line: (line["kind"], line["temperature"], line["new_tokens"])):
        ratios, over_plain = [], []
        for _, each in _by(group, lambda line: line["prompt"]):
            rates = {line["way"]: line["rate"] for line in each}
            auto = rates.pop("auto")
            ratios.append(auto / max(rates.values()))
            over_plain.append(auto / rates["plain"])
        best, plain = statistics.geometric_mean(ratios), statistics.geometric_mean(over_plain)
        shown = "  ".join(f"{way} {_mean(each):.1f}" for way, each in _by(group, lambda line: line["way"]))
        print(f"  {part} {setting}: AUTO {best:.2f} of the best, {plain:.2f} of NEVER ({shown})")


def _print_pairs(lines: Seq[Line], name: str) -> None:
    for value, group in _by(lines, lambda line: line[name]):
        rates = {way: [line["rate"] for line in each] for way, each in _by(group, lambda line: line["way"])}
        pairs = [auto / plain for auto, plain in zip(rates["auto"], rates["plain"], strict=True)]
        shown = " ".join(f"{pair:.2f}" for pair in pairs)
        means = "  ".join(f"{way} {statistics.fmean(each):.1f}" for way, each in rates.items())
        print(f"  {name} {value}: AUTO {statistics.median(pairs):.3f} of NEVER ({shown}; {means})")


def _mean(lines: Iterable[Line]) -> float:
    return statistics.fmean(line["rate"] for line in lines)


def _by(lines: Iterable[Line], key: Callable[[Line], Any]) -> list[tuple[Any, list[Line]]]:
    groups: dict[Hashable, list[Line]] = defaultdict(list)
    for line in lines:
        groups[key(line)].append(line)
    return [*groups.items()]


if __name__ == "__main__":
    main()
