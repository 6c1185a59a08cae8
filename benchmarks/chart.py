"""The README's chart of the figures: `python -m benchmarks.chart RESULTS.json OUT.svg`."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.bar_chart import Panel, Row, draw_file, draw_panels

_LEGEND = (
    "One sequence, greedy. Upper bar: plain; lower bar: with a draft, and whether its answers equal the plain answers."
)


def draw_chart(record: Mapping[str, Any]) -> str:
    """Return an SVG with two bars for each engine and format: plain, and with its draft at its fastest."""
    groups = {weights: [*_rows(signs["services"]["shared"])] for weights, signs in record["formats"].items()}
    fastest = max(max(row.plain, row.drafted or 0.0) for rows in groups.values() for row in rows)
    panels = [Panel(f"{weights} weights, tokens per second", rows, fastest) for weights, rows in groups.items()]
    title = "Decoding speed of Outrider and of other engines, plain and with a draft"
    return draw_panels(panels, title=title, notes=[_LEGEND])


def _rows(services: Mapping[str, Any]) -> Iterator[Row]:
    """Yield Outrider with the draft lengths that it decides, and each peer with its best number of predictions."""
    yield _row("Outrider", services["ways"], "auto", is_ours=True)
    for name, ways in services["peers"].items():
        speculative = [way for way in ways if way != "plain"]
        best = max(speculative, key=lambda way: ways[way]["rate"]["median"])
        yield _row(name.rpartition(" ")[0], ways, best, is_ours=False)


def _row(name: str, ways: Mapping[str, Any], speculative: str, *, is_ours: bool) -> Row:
    way = ways[speculative]
    return Row(
        name=name,
        is_ours=is_ours,
        plain=ways["plain"]["rate"]["median"],
        drafted=way["rate"]["median"],
        is_equal=way["num_equal"] == way["num_answers"],
    )


if __name__ == "__main__":
    draw_file(__doc__, draw_chart)
