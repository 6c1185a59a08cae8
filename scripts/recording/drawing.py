"""Drawing: a screen to SVG, where text appears when it was written; readable on light and on dark pages."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from html import escape

from scripts.recording.screen import Run

_WIDTH, _LINE, _MARGIN, _BAR = 7.8, 18, 14, 34  # of a character; of a line; around the text; above it
_STYLE = """
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre; }
  .line text { animation: appear 1ms both; }
  .title { fill: #59636e; }
  .bold { font-weight: 700; }
  .dim { fill: #59636e; }
  .red { fill: #cf222e; }
  .green { fill: #1a7f37; }
  .page { fill: #ffffff; stroke: #c4ccd4; }
  .bar { stroke: #c4ccd4; }
  @keyframes appear { from { visibility: hidden; } }
  @media (prefers-reduced-motion: reduce) { .line text { animation: none; } }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .title, .dim { fill: #9198a1; }
    .red { fill: #ff7b72; }
    .green { fill: #3fb950; }
    .page { fill: #0d1117; stroke: #3d444d; }
    .bar { stroke: #3d444d; }
  }
"""


def draw(screen: Seq[Run], title: str, columns: int) -> str:
    """The picture of a screen, as SVG; a viewer that moves nothing shows the whole of it."""
    width = columns * _WIDTH + 2 * _MARGIN
    height = _BAR + (max(run.row for run in screen) + 1) * _LINE + 2 * _MARGIN
    parts = [
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="6"/>',
        f'<path class="bar" d="M0 {_BAR} H{width:g}"/>',
        f'<text class="title" x="{_MARGIN}" y="22">{escape(title)}</text>',
        '<g class="line">',
        *_texts(screen),
        "</g>",
    ]
    view = f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view}>'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n"


def _texts(screen: Seq[Run]) -> Iterator[str]:
    for run in screen:
        if run.text.isspace():
            continue
        x, y = _MARGIN + run.column * _WIDTH, _BAR + _MARGIN + (run.row + 1) * _LINE - 5
        place = f'x="{x:g}" y="{y:g}" textLength="{len(run.text) * _WIDTH:g}"'
        when = f' style="animation-delay:{run.seconds:.2f}s"'
        kind = f' class="{run.style}"' if run.style else ""
        yield f"<text {place}{kind}{when}>{escape(run.text)}</text>"
