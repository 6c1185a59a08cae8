"""Rooms: the folders of the source as a tree, and which of them use which, read from the code."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SUFFIXES = {".py", ".h", ".cpp", ".cu", ".cuh"}
_UNNAMED = {"__init__", "__main__"}
_INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)
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

    def users(self, root: Path) -> dict["Room", set["Room"]]:
        """For each of the rooms inside of it, which others of them it uses."""
        room_of = {file: room for room in self.rooms for file in room.all_files}
        users: dict[Room, set[Room]] = {room: set() for room in self.rooms}
        for file, room in room_of.items():
            users[room] |= {room_of[path] for path in uses(root, file) if path in room_of} - {room}
        return users

    def holder(self, file: Path) -> "Room":
        """The innermost room that holds a file of this one."""
        return next((room.holder(file) for room in self.rooms if file in room.all_files), self)


def read_house(root: Path) -> Room:
    """All of the services, and the native code below them."""
    return Room("", (), (*_read_room(root / "services").rooms, _read_room(root / "native")))


def calls(house: Room) -> Iterator[tuple[Path, Path]]:
    """The files that name a service of gRPC, each with the one that serves it."""
    texts = {file: file.read_text() for file in house.all_files if file.suffix == ".py"}
    servers = {service: file for file, text in texts.items() for service in _SERVES.findall(text)}
    for file, text in texts.items():
        yield from ((file, servers[service]) for service in sorted({*_NAMES.findall(text)}) if service in servers)


@cache
def uses(root: Path, file: Path) -> tuple[Path, ...]:
    """The sources of the repository that one of them imports, starts by its name, or includes."""
    text = file.read_text()
    if file.suffix == ".py":
        return tuple(path for name in _names(ast.parse(text)) if (path := _module(root, name)))
    folders = (file.parent, *(root / "native" / name for name in ("include", "src", "bindings")))
    paths = (folder / name for name in _INCLUDE.findall(text) for folder in folders)
    return tuple(path for path in paths if path.exists())


def _read_room(folder: Path) -> Room:
    entries = sorted(folder.iterdir())
    inner = [_read_room(path) for path in entries if path.is_dir()]
    files = tuple(path for path in entries if path.suffix in _SUFFIXES)
    return Room(folder.name, files, tuple(room for room in inner if room.all_files))


def _names(tree: ast.Module) -> Iterator[str]:
    """The full names of all that a module imports or, as commands and workers are, has in a string to be imported."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Constant(value=str(text)) if text.startswith("services.") and text.replace(".", "").isidentifier():
                yield text


def _module(root: Path, name: str) -> Path | None:
    """The file of a module, or of the one that has a name of that name; None where it is not ours."""
    if name.endswith("._native") or "._native." in name:
        return root / "native" / "bindings" / "module.cpp"
    path = root.joinpath(*name.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py", path.parent.with_suffix(".py"), path.parent / "__init__.py")
    return next((file for file in files if file.exists()), None)
