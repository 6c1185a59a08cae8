"""Rooms: the folders of the source as a tree, and which of them use which, read from the code."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scripts.picture.imported import imported

_PYTHON_DEPTH, _NATIVE_DEPTH = 9, 2  # of native code there is too much for a picture
_SUFFIXES = {".py", ".h", ".cpp", ".cu", ".cuh"}
_UNNAMED = {"__init__", "__main__"}
_INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)
_FULL_NAME = re.compile(r"services(\.\w+)+")
_NAMES = re.compile(r"""\b(\w+Service)(?:Stub\b|['"]\])""")  # a stub's, or a service's in a description
_SERVES = re.compile(r"\badd_(\w+Service)Servicer_to_server\b")


@dataclass(frozen=True)
class Room:
    """A folder with its own sources, and the rooms inside of it."""

    name: str
    files: tuple[Path, ...]
    rooms: tuple["Room", ...]

    @property
    def modules(self) -> list[str]:
        """The names of its own modules; of native sources there are too many for a picture."""
        return [file.stem for file in self.files if file.suffix == ".py" and file.stem not in _UNNAMED]

    @property
    def all_files(self) -> list[Path]:
        """Its sources, those of the rooms inside of it included."""
        return [*self.files, *(file for room in self.rooms for file in room.all_files)]

    def users(self, root: Path) -> "Users":
        """For each of the rooms inside of it, which others of them it uses.

        A room that only starts another by its name does not use it where that one imports it: the names of commands and
        of workers are a way around such circles.
        """
        users = self._uses(root, imports)
        for room, started in self._uses(root, starts).items():
            users[room] |= {other for other in started if room not in below(other, users)}
        return users

    def _uses(self, root: Path, used_by: Callable[[Path, Path], Iterable[Path]]) -> "Users":
        room_of = {file: room for room in self.rooms for file in room.all_files}
        users: Users = {room: set() for room in self.rooms}
        for file, room in room_of.items():
            users[room] |= {room_of[path] for path in used_by(root, file) if path in room_of} - {room}
        return users

    def holder(self, file: Path) -> "Room":
        """The innermost room that holds a file of this one."""
        return next((room.holder(file) for room in self.rooms if file in room.all_files), self)


Users = dict[Room, set[Room]]


def read_house(root: Path) -> Room:
    """All of the services, and the native code below them."""
    services, native = (
        _read_room(root / "services", depth=_PYTHON_DEPTH),
        _read_room(root / "native", depth=_NATIVE_DEPTH),
    )
    return Room("", (), (*services.rooms, native))


def calls(house: Room) -> Iterator[tuple[Path, Path]]:
    """The files that name a service of gRPC, each with the one that serves it."""
    texts = {file: file.read_text() for file in house.all_files if file.suffix == ".py"}
    servers = {service: file for file, text in texts.items() for service in _SERVES.findall(text)}
    for file, text in texts.items():
        yield from ((file, servers[service]) for service in sorted({*_NAMES.findall(text)}) if service in servers)


def below(room: Room, users: Users) -> set[Room]:
    """What a room uses, and what these use."""
    found: set[Room] = set()
    waiting = [room]
    while waiting:
        waiting += users[waiting.pop()] - found
        found.update(waiting)
    return found


@cache
def imports(root: Path, file: Path) -> tuple[Path, ...]:
    """The sources of the repository that one of them imports or includes."""
    if file.suffix == ".py":
        names = imported(_parse(file), file.relative_to(root).parts[:-1])
        return tuple(path for name in names if (path := _module(root, name)))
    folders = (file.parent, *(root / "native" / name for name in ("include", "src", "bindings")))
    paths = (folder / name for name in _INCLUDE.findall(file.read_text()) for folder in folders)
    return tuple(path for path in paths if path.exists())


@cache
def starts(root: Path, file: Path) -> tuple[Path, ...]:
    """The modules that a module has the full names of, as commands and workers are started."""
    if file.suffix != ".py":
        return ()
    texts = (node.value for node in ast.walk(_parse(file)) if isinstance(node, ast.Constant))
    names = (text for text in texts if isinstance(text, str) and _FULL_NAME.fullmatch(text))
    return tuple(path for name in names if (path := _module(root, name)))


@cache
def _parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _read_room(folder: Path, *, depth: int) -> Room:
    """A folder with the rooms inside of it; those deeper than `depth` are no rooms of their own."""
    entries = sorted(folder.iterdir() if depth else folder.rglob("*"))
    inner = [_read_room(path, depth=depth - 1) for path in entries if path.is_dir()] if depth else []
    files = tuple(path for path in entries if path.suffix in _SUFFIXES)
    return Room(folder.name, files, tuple(room for room in inner if room.all_files))


def _module(root: Path, name: str) -> Path | None:
    """The file of a module, or of the one that has a name of that name; None where it is not ours."""
    if name.endswith("._native") or "._native." in name:
        return root / "native" / "bindings" / "module.cpp"
    path = root.joinpath(*name.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py", path.parent.with_suffix(".py"), path.parent / "__init__.py")
    return next((file for file in files if file.exists()), None)
