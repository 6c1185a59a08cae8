"""The chart of a real pair: `python -m benchmarks.real_chart RESULTS.json OUT.svg`."""

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from typing import Any

from benchmarks.bar_chart import Panel, Row, draw_file, draw_panels
from benchmarks.real_summary import BITS, Line, lines, prefill, selected
from benchmarks.sample import Sample
from services.bench.contender import PLAIN

_LEGEND = "Upper bar: plain; lower bar: its fastest way with a draft, and whether its answers equal the plain answers."


def draw_chart(record: dict[str, Any]) -> str:
    """Return an SVG of the samples: one stream, many streams, and a long context, by format of weights."""
    samples, machine = [Sample(**each) for each in record["samples"]], record["machine"]
    panels = [_panel(title, found) for title, each in _shown(samples) if (found := [*each])]
    title = "Speed of Outrider and of other engines: one stream, many streams, a long context"
    where = f"{machine['name'] or machine['processor']}, {machine['cores']} cores."
    return draw_panels(panels, title=title, notes=[_LEGEND, where])


def _shown(samples: Seq[Sample]) -> Iterator[tuple[str, Iterable[Line]]]:
    """Yield the title and the lines of each possible panel; the lines may be empty."""
    for streams in sorted({sample.streams for sample in samples}):
        for bits, formats in BITS.items():
            who = "One stream" if streams == 1 else f"{streams} streams"
            found = lines(selected(samples, formats, streams=streams))
            yield f"{who}, weights of {bits}: tokens per second", found
    for bits, formats in BITS.items():
        long = selected(samples, formats, streams=1, is_long=True)
        plain = [each for each in long if each.way == PLAIN.name]
        length = max((each.prompt_tokens for each in long), default=0)
        title = f"prompt of {length:,} tokens, weights of {bits}: tokens per second"
        yield f"Reading a {title}", lines(plain, prefill)
        yield f"Answering a {title}", lines(long)


def _panel(title: str, found: Seq[Line]) -> Panel:
    return Panel(title, [*map(_row, found)], max(max(line.plain.median, line.best.median) for line in found))


def _row(line: Line) -> Row:
    return Row(
        name=line.name,
        is_ours=line.is_ours,
        plain=line.plain.median,
        drafted=None if line.way == PLAIN.name else line.best.median,
        is_equal=line.num_equal == line.num_answers,
    )


if __name__ == "__main__":
    draw_file(__doc__, draw_chart)
