"""The README's chart of the figures: `python -m services.bench.experiments.chart RESULTS.json OUT.svg`."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

_WIDTH, _ROW, _HEAD = 760, 30, 34  # pixels
_NAME_WIDTH, _NOTE_WIDTH = 150, 170
_BAR = 11
_LEGEND = (
    "One sequence, greedy. Upper bar: plain; lower bar: with a draft, and whether its answers are still the plain ones."
)
_STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f; }
  .head { font-weight: 600; }
  .note { fill: #6e7781; font-size: 12px; }
  .plain { fill: #afb8c1; }
  .ours { fill: #0969da; }
  .peer { fill: #6e7781; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note { fill: #9198a1; }
    .plain { fill: #4d5560; }
    .ours { fill: #4493f8; }
    .peer { fill: #9198a1; }
  }
"""


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="what the figures were saved as")
    parser.add_argument("out", type=Path, help="the file to write")
    options = parser.parse_args()
    options.out.write_text(draw_chart(json.loads(options.results.read_text())))


@dataclass(frozen=True)
class Row:
    """One engine with one format of weights; rates in tokens per second."""

    name: str
    is_ours: bool
    plain: float
    speculative: float
    num_equal: int
    num_answers: int


def draw_chart(record: Mapping[str, Any]) -> str:
    """An SVG with two bars for each engine and format: plain, and with its draft as it is fastest."""
    groups = {weights: [*_rows(signs["services"]["shared"])] for weights, signs in record["formats"].items()}
    fastest = max(max(row.plain, row.speculative) for rows in groups.values() for row in rows)
    scale = (_WIDTH - _NAME_WIDTH - _NOTE_WIDTH) / fastest
    parts: list[str] = []
    y = 0
    for weights, rows in groups.items():
        parts.append(_text(0, y + _HEAD - 12, f"{weights} weights, tokens per second", "head"))
        y += _HEAD
        for row in rows:
            parts += _bars(row, y, scale)
            y += _ROW
    parts.append(_text(0, y + _HEAD - 12, _LEGEND, "note"))
    height = y + _HEAD
    title = "Decoding speed of Outrider and of other engines, plain and with a draft"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{title}">'
    return "\n".join([head, f"<title>{title}</title>", f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n"


def _rows(services: Mapping[str, Any]) -> Iterator[Row]:
    """Ours as it decides by itself; a peer with the number of predictions that is best for it."""
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
        speculative=way["rate"]["median"],
        num_equal=way["num_equal"],
        num_answers=way["num_answers"],
    )


def _bars(row: Row, y: int, scale: float) -> Iterator[str]:
    yield _text(0, y + _BAR + 4, row.name, "")
    bars = ((y, row.plain, "plain"), (y + _BAR + 1, row.speculative, "ours" if row.is_ours else "peer"))
    for top, rate, kind in bars:
        yield f'<rect class="{kind}" x="{_NAME_WIDTH}" y="{top}" width="{rate * scale:.1f}" height="{_BAR}" rx="2"/>'
    equal = "same tokens" if row.num_equal == row.num_answers else "other tokens"
    end = _NAME_WIDTH + max(row.plain, row.speculative) * scale
    yield _text(end + 8, y + _BAR + 4, f"{row.plain:.1f} → {row.speculative:.1f} · {equal}", "note")


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


if __name__ == "__main__":
    main()
