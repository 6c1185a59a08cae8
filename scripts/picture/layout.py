"""Layout: rooms to boxes, floor by floor: who uses another stands above it."""

import math
import textwrap
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from scripts.picture.rooms import Room, Users, below, calls

PADDING, LINE, HEAD = 10, 12, 18  # pixels, as all sizes
_CHARACTER = 6.05  # the width of one of the monospaced names
_BELOW = 4  # the names of a room that has others inside
_GAP, _FLOOR, _LANE = 14, 20, 10  # between rooms, between floors, and what an arrow that passes a floor takes of it
_LEAST_WEIGHT = 3


@dataclass
class Box:
    """A room in its place, or a lane by which an arrow passes a floor; `x` and `y` are within the box around it."""

    room: Room | None
    x: float = 0.0
    y: float = 0.0
    width: float = _LANE
    height: float = 0.0
    lines: list[str] = field(default_factory=list)
    boxes: list["Box"] = field(default_factory=list)
    arrows: list[list["Box"]] = field(default_factory=list)  # each from a user by lanes to what is used


class Layout:
    """The boxes of a house; on each floor those that call others by gRPC are to the left of those that are called."""

    def __init__(self, house: Room, root: Path) -> None:
        pairs = [(caller, server) for caller, server in calls(house) if caller != server]
        self._callers = {caller for caller, _ in pairs}
        self._servers = {server for _, server in pairs}
        self._root = root

    def box(self, room: Room, width: float) -> Box:
        """A room that is so wide, and all that is in it; raises ValueError where rooms use one another in a circle."""
        box = Box(room, width=width, height=PADDING)
        if room.name:
            box.lines = textwrap.wrap("  ".join(room.modules), int((width - 2 * PADDING) / _CHARACTER))
            box.height += HEAD + LINE * len(box.lines) + (_BELOW if box.lines and room.rooms else 0)
        floors, box.arrows = self._floors(room.users(self._root))
        for floor in floors:
            self._furnish(floor, box)
        box.height += PADDING - (_FLOOR if floors else 0)
        return box

    def _furnish(self, floor: list[Box], around: Box) -> None:
        """Lay a floor's rooms out below what is there already, side by side, each as wide as it has much to show."""
        weights = [0 if box.room is None else _weight(box.room) for box in floor]
        free = around.width - 2 * PADDING - _GAP * (len(floor) - 1) - _LANE * weights.count(0)
        x = float(PADDING)
        for box, weight in zip(floor, weights, strict=True):
            if box.room is not None:
                laid = self.box(box.room, free * weight / sum(weights))
                box.width, box.height, box.lines = laid.width, laid.height, laid.lines
                box.boxes, box.arrows = laid.boxes, laid.arrows
            box.x, box.y = x, around.height
            x += box.width + _GAP
        height = max(box.height for box in floor)
        for box in floor:
            box.height = height
        around.boxes += floor
        around.height += height + _FLOOR

    def _floors(self, users: Users) -> tuple[list[list[Box]], list[list[Box]]]:
        """The rooms by floors, each as high as those above it allow, and the arrows between them."""
        levels = _levels(users)
        floors: list[list[Box]] = [[] for _ in {*levels.values()}]
        box_of = {room: Box(room) for room in sorted(users, key=self._rank)}
        for room, box in box_of.items():
            floors[levels[room]].append(box)
        arrows = []
        for room, used in _essential(users).items():
            for other in sorted(used, key=self._rank):
                between = range(levels[room] + 1, levels[other])
                lanes = [Box(None) for _ in between]
                for level, lane in zip(between, lanes, strict=True):
                    floors[level].append(lane)
                arrows.append([box_of[room], *lanes, box_of[other]])
        for above, floor in pairwise(floors):
            _put_below(floor, above, arrows)
        return floors, arrows

    def _rank(self, room: Room) -> tuple[bool, bool, int, str]:
        """What calls and what is called by gRPC to the right, else what is large to the left."""
        files = {*room.all_files}
        return bool(files & self._servers), bool(files & self._callers), -len(files), room.name


def _weight(room: Room) -> float:
    return math.sqrt(max(_LEAST_WEIGHT, len(room.all_files)))


def _essential(users: Users) -> Users:
    """What each room uses, less what it uses by way of another, too."""
    implied = {room: {one for other in used for one in below(other, users)} for room, used in users.items()}
    return {room: used - implied[room] for room, used in users.items()}


def _levels(users: Users) -> dict[Room, int]:
    levels = dict.fromkeys(users, 0)
    for _ in range(len(users) + 1):
        below = {other: levels[room] + 1 for room in users for other in users[room] if levels[other] <= levels[room]}
        if not below:
            return levels
        levels |= below
    raise ValueError(f"some of {', '.join(sorted(room.name for room in users))} use one another in a circle")


def _put_below(floor: list[Box], above: list[Box], arrows: list[list[Box]]) -> None:
    """Put each box below its user, so that arrows do not cross where that can be helped."""
    place = {id(box): index for index, box in enumerate(above)}
    user_of = {id(used): user for arrow in arrows for user, used in pairwise(arrow)}
    middle = (len(above) - 1) / 2
    floor.sort(key=lambda box: place.get(id(user_of.get(id(box))), middle))
