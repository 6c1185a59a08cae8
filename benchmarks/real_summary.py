"""Tables of samples by engine: `python -m benchmarks.real_summary RESULTS.json` prints them."""

import argparse
import json
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from benchmarks.prompts.kinds import DOCUMENT
from benchmarks.sample import OURS, Sample
from services.bench.contender import AUTO, PLAIN
from services.bench.spread import Spread

BITS = {"16 bits": ("bf16",), "8 bits": ("int8",), "4 bits": ("int4", "stored")}
_HEAD = "| engine | plain | best | its way | same text | ours over it |\n| --- | --- | --- | --- | --- | --- |"
_OUR_NAMES = {"stored": "Q4_K_M"}
_FILES = {"bf16": "bf16", "int8": "Q8_0", "int4": "Q4_0", "stored": "Q4_K_M"}  # llama.cpp's


@dataclass(frozen=True, slots=True)
class Line:
    """One engine with one format of weights, plain and in its fastest way; for Outrider that is AUTO."""

    name: str
    is_ours: bool
    plain: Spread
    best: Spread
    way: str
    num_equal: int
    num_answers: int
    ratio: Spread | None  # our rate over its rate, for the same prompts in the same run; None: for us


def read(path: Path) -> list[Sample]:
    """Read the samples of a file."""
    return [Sample(**each) for each in json.loads(path.read_text())["samples"]]


def decoding(sample: Sample) -> float | None:
    """Return the tokens per second of all streams together."""
    return sample.rate


def prefill(sample: Sample) -> float | None:
    """Return the tokens of the prompt per second until the first token."""
    return sample.prompt_tokens / sample.first_token


Measure = Callable[[Sample], float | None]


def lines(samples: Seq[Sample], measure: Measure = decoding) -> Iterator[Line]:
    """Yield a line for each engine and format whose plain rate is known, Outrider first."""
    known = [sample for sample in samples if measure(sample) is not None]
    keys = sorted({(sample.engine != OURS, sample.engine, sample.weights) for sample in known})
    for is_peer, engine, weights in keys:
        own = [sample for sample in known if (sample.engine, sample.weights) == (engine, weights)]
        ways = sorted({sample.way for sample in own})
        rates = {way: Spread.of(_values(own, way, measure)) for way in ways}
        if PLAIN.name not in rates:
            continue  # Its plain answers never overlapped, so there is nothing to compare a draft with.
        best = _best(rates, is_ours=not is_peer)
        chosen = [sample for sample in own if sample.way == best]
        yield Line(
            name=_name(engine, weights),
            is_ours=not is_peer,
            plain=rates[PLAIN.name],
            best=rates[best],
            way=best,
            num_equal=sum(sample.equal for sample in chosen),
            num_answers=sum(sample.streams for sample in chosen),
            ratio=_ratio(known, chosen, measure) if is_peer else None,
        )


def _values(samples: Seq[Sample], way: str, measure: Measure) -> list[float]:
    return [value for sample in samples if sample.way == way and (value := measure(sample)) is not None]


def _best(rates: dict[str, Spread], *, is_ours: bool) -> str:
    if is_ours and AUTO.name in rates:
        return AUTO.name
    return max(rates, key=lambda way: rates[way].median)


def _ratio(known: Seq[Sample], peers: Seq[Sample], measure: Measure) -> Spread | None:
    ours = {
        (each.run, each.kind, each.turn, each.streams, each.way): measure(each) for each in known if each.engine == OURS
    }
    ratios = []
    for sample in peers:
        key = (sample.run, sample.kind, sample.turn, sample.streams)
        own = ours.get((*key, AUTO.name)) or ours.get((*key, PLAIN.name))
        if own and (value := measure(sample)):
            ratios.append(own / value)
    return Spread.of(ratios) if ratios else None


def _name(engine: str, weights: str) -> str:
    names = _FILES if engine == "llama.cpp" else _OUR_NAMES
    return f"{engine} {names.get(weights, weights)}"


def selected(samples: Seq[Sample], formats: Seq[str], *, streams: int, is_long: bool = False) -> list[Sample]:
    """Return the samples of these formats with so many streams, of the document only or of all other kinds."""
    return [
        sample
        for sample in samples
        if sample.weights in formats and sample.streams == streams and (sample.kind == DOCUMENT) == is_long
    ]


def main() -> None:
    """Print the tables of all samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    samples = read(parser.parse_args().results)
    for streams in sorted({sample.streams for sample in samples}):
        for bits, formats in BITS.items():
            _print(f"{streams} streams, {bits}", lines(selected(samples, formats, streams=streams)))
    for bits, formats in BITS.items():
        long = selected(samples, formats, streams=1, is_long=True)
        _print(f"prefill of the document, {bits}", lines([each for each in long if each.way == PLAIN.name], prefill))
        _print(f"decode after the document, {bits}", lines(long))


def _print(title: str, found: Iterator[Line]) -> None:
    rows = [*found]
    if rows:
        print(f"\n{title}\n{_HEAD}")
    for each in rows:
        equal = f"{each.num_equal} of {each.num_answers}"
        ratio = _text(each.ratio, 2) if each.ratio else ""
        print(f"| {each.name} | {_text(each.plain)} | {_text(each.best)} | {each.way} | {equal} | {ratio} |")


def _text(spread: Spread, digits: int = 1) -> str:
    return f"{spread.median:.{digits}f} ({spread.lower:.{digits}f} … {spread.upper:.{digits}f})"


if __name__ == "__main__":
    main()
