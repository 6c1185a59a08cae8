"""Bar charts of the rates of several engines, plain and with a draft, as an SVG."""

import argparse
import json
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

_WIDTH, _ROW, _HEAD, _NOTE = 760, 30, 34, 18  # pixels
_NAME_WIDTH, _NOTE_WIDTH = 150, 170
_BAR = 11
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One engine; rates are in tokens per second. `is_equal`: its answers with the draft equal its plain answers."""

    name: str
    is_ours: bool
    plain: float
    drafted: float | None  # None where it is plain only
    is_equal: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """Engines to compare; a bar of the rate `full` fills the whole width."""

    title: str
    rows: Seq[Row]
    full: float


def draw_panels(panels: Seq[Panel], *, title: str, notes: Seq[str]) -> str:
    """Return an SVG with the panels one below the other, and the notes below them."""
    parts: list[str] = []
    y = 0
    for panel in panels:
        parts.append(_text(0, y + _HEAD - 12, panel.title, "head"))
        y += _HEAD
        for row in panel.rows:
            parts += _bars(row, y, (_WIDTH - _NAME_WIDTH - _NOTE_WIDTH) / panel.full)
            y += _ROW
    parts += [_text(0, y + _HEAD - 12 + _NOTE * place, note, "note") for place, note in enumerate(notes)]
    height = y + _HEAD + _NOTE * (len(notes) - 1)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{title}">'
    return "\n".join([head, f"<title>{title}</title>", f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n"


def draw_file(description: str | None, draw_chart: Callable[[dict[str, Any]], str]) -> None:
    """Run a command that reads saved figures and writes a chart of them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the file of saved figures")
    parser.add_argument("out", type=Path, help="the file to write")
    options = parser.parse_args()
    options.out.write_text(draw_chart(json.loads(options.results.read_text())))


def _bars(row: Row, y: int, scale: float) -> Iterator[str]:
    yield _text(0, y + _BAR + 4, row.name, "")
    best = row.plain if row.drafted is None else row.drafted
    bars = [] if row.drafted is None else [(y, row.plain, "plain")]
    bars.append((y + _BAR + 1, best, "ours" if row.is_ours else "peer"))
    for top, rate, kind in bars:
        yield f'<rect class="{kind}" x="{_NAME_WIDTH}" y="{top}" width="{rate * scale:.1f}" height="{_BAR}" rx="2"/>'
    equal = "same tokens" if row.is_equal else "other tokens"
    rates = f"{best:.1f}" if row.drafted is None else f"{row.plain:.1f} → {best:.1f} · {equal}"
    yield _text(_NAME_WIDTH + max(row.plain, best) * scale + 8, y + _BAR + 4, rates, "note")


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
