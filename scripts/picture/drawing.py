"""Drawing: boxes and arrows to SVG, readable on light and on dark pages."""

from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path

from scripts.picture.layout import HEAD, LINE, PADDING, Box, Layout
from scripts.picture.rooms import Room, calls, read_house

_WIDTH = 860
_NOTE = (
    "Each room is a folder, with its modules. Arrows: what it imports (or includes); what follows from other arrows is "
    "left out. Dashed: calls by gRPC."
)
_STYLE = """
  text { font: 600 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .modules { font: 10px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #59636e; white-space: pre; }
  .note { font-weight: 400; font-size: 11px; fill: #59636e; }
  .page, .odd { fill: #ffffff; }
  .even { fill: #f3f6f9; }
  .odd, .even { stroke: #c4ccd4; }
  .arrow { stroke: #0969da; stroke-width: 1.3; fill: none; }
  .call { stroke: #bc4c00; stroke-width: 1.3; stroke-dasharray: 4 3; fill: none; }
  .tip { fill: #0969da; }
  .call-tip { fill: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .modules, .note { fill: #9198a1; }
    .page, .odd { fill: #0d1117; }
    .even { fill: #161b22; }
    .odd, .even { stroke: #3d444d; }
    .arrow { stroke: #4493f8; }
    .call { stroke: #f0883e; }
    .tip { fill: #4493f8; }
    .call-tip { fill: #f0883e; }
  }
"""


def draw(root: Path) -> str:
    """The picture of the sources below a folder, as SVG."""
    house = read_house(root)
    box = Layout(house, root).box(house, _WIDTH)
    height = box.height + LINE + PADDING
    title = "The packages of Outrider, and what each imports"
    view = f'viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{title}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view}>'
    page = f'<rect class="page" width="{_WIDTH}" height="{height:g}"/>'
    places = dict(_places(box, 0, 0))
    note = _text(PADDING, box.height + LINE - 2, _NOTE, "note")
    parts = [page, *_draw(box, 0, 0, depth=0), *_draw_calls(house, places), note]
    return "\n".join([head, f"<title>{title}</title>", f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n"


def _draw(box: Box, left: float, top: float, *, depth: int) -> Iterator[str]:
    if box.room is None:
        return
    if box.room.name:
        kind = "even" if depth % 2 else "odd"
        size = f'width="{box.width:.1f}" height="{box.height:.1f}"'
        yield f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" {size} rx="5"/>'
        yield _text(left + PADDING, top + PADDING + 9, box.room.name, "")
        for index, line in enumerate(box.lines):
            yield _text(left + PADDING, top + PADDING + HEAD + LINE * index + 7, line, "modules")
    for inner in box.boxes:
        yield from _draw(inner, left + inner.x, top + inner.y, depth=depth + 1)
    for arrow in box.arrows:
        yield from _draw_arrow(arrow, left, top)


def _draw_arrow(arrow: list[Box], left: float, top: float) -> Iterator[str]:
    points: list[tuple[float, float]] = []
    for user, used in pairwise(arrow):
        start, end = _meet(user, used)
        points += [(left + start, top + user.y + user.height), (left + end, top + used.y)]
    (x, y), path = points[-1], " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    yield f'<path class="arrow" d="M{path}"/>'
    yield f'<path class="tip" d="M{x:.1f} {y:.1f} l-3.5 -7 h7 z"/>'


def _meet(user: Box, used: Box) -> tuple[float, float]:
    """Where an arrow leaves one and reaches the other: straight down where one stands above the other."""
    low, high = max(user.x, used.x), min(user.x + user.width, used.x + used.width)
    if low < high:
        return (low + high) / 2, (low + high) / 2
    return (high, low) if user.x < used.x else (low, high)


def _places(box: Box, left: float, top: float) -> Iterator[tuple[Room, tuple[float, float, Box]]]:
    if box.room is not None:
        yield box.room, (left, top, box)
    for inner in box.boxes:
        yield from _places(inner, left + inner.x, top + inner.y)


def _draw_calls(house: Room, places: dict[Room, tuple[float, float, Box]]) -> Iterator[str]:
    """From the room that calls a service to the one beside its own that serves it."""
    for caller, server in calls(house):
        (left, top, room), (right, floor, _) = places[house.holder(caller)], places[house.holder(server)]
        if left + room.width < right and floor < top:
            y = top + room.height / 2
            yield f'<path class="call" d="M{left + room.width:.1f} {y:.1f} H{right:.1f}"/>'
            yield f'<path class="call-tip" d="M{right:.1f} {y:.1f} l-7 -3.5 v7 z"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
