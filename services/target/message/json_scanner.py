"""JsonScanner: finds the values in a JSON text that is still growing, and the place where it stops being JSON."""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

_MOST_DEPTH = 64
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')  # characters of a string that stand for themselves
_SPACE, _DIGITS, _HEX = " \t\n\r", "0123456789", "0123456789abcdefABCDEF"
_WORDS = ("true", "false", "null")
_END = "end"  # of a string or a word
_NUMBER = {"-": "minus", "0": "zero", "123456789": "whole"}
_VALUE = {'"': "string", "{": "{", "[": "[", **_NUMBER, "t": "t", "f": "f", "n": "n"}
_STATES = {  # for each state, the next state by the next character
    "value": {_SPACE: "value", **_VALUE},
    "first item": {_SPACE: "first item", **_VALUE, "]": "]"},
    "first key": {_SPACE: "first key", '"': "key", "}": "}"},
    "next key": {_SPACE: "next key", '"': "key"},
    "after a key": {_SPACE: "after a key", ":": "value"},
    "after { and a value": {_SPACE: "after { and a value", ",": "next key", "}": "}"},
    "after [ and a value": {_SPACE: "after [ and a value", ",": "value", "]": "]"},
    "string": {'"': _END, "\\": "escape"},
    "escape": {'"\\/bfnrt': "string", "u": "4 digits"},
    **{f"{n} digits": {_HEX: f"{n - 1} digits" if n > 1 else "string"} for n in (4, 3, 2, 1)},
    "minus": {"0": "zero", "123456789": "whole"},
    "zero": {".": "point", "eE": "exponent"},
    "whole": {_DIGITS: "whole", ".": "point", "eE": "exponent"},
    "point": {_DIGITS: "fraction"},
    "fraction": {_DIGITS: "fraction", "eE": "exponent"},
    "exponent": {"+-": "sign", _DIGITS: "power"},
    "sign": {_DIGITS: "power"},
    "power": {_DIGITS: "power"},
    **{word[:n]: {word[n]: word[: n + 1]} for word in _WORDS for n in range(1, len(word) - 1)},
    **{word[:-1]: {word[-1]: _END} for word in _WORDS},
}
_NUMBERS = ("zero", "whole", "fraction", "power")  # states that end only with a character after the value
_BEGINNINGS = ("value", "first item")
_MOVES = {
    state: {character: target for characters, target in moves.items() for character in characters}
    for state, moves in _STATES.items()
}


class Place(Enum):
    """A kind of place in a JSON text."""

    KEY = auto()
    """Before a key."""
    AFTER_KEY = auto()
    VALUE = auto()
    """Before a value."""
    AFTER_VALUE = auto()


class Found(NamedTuple):
    """A place, and the number of objects and lists around it."""

    place: Place
    depth: int


class JsonScanner:
    """Reads each character once; the text up to `position` is the beginning of a JSON value."""

    def __init__(self, start: int) -> None:
        """The value begins at `start`, perhaps after white space."""
        self.position = start
        self.is_whole = False
        self._state = "value"
        self._open: list[str] = []  # the brackets of the objects and lists around the position
        self._is_key = False  # whether the current string is a key

    def read(self, text: str) -> Iterator[Found]:
        """Read up to the end of the value, and stop at each place; `text` must begin with the previous call's text.

        Raises ValueError at a character that cannot stand there in JSON, or that nests too deeply.
        """
        while self.position < len(text) and not self.is_whole:
            target = _MOVES[self._state].get(text[self.position])
            if target is not None:
                yield from self._move(target)
            elif self._state in _NUMBERS:
                yield self._end()
            elif self._state == "string" and (found := _PLAIN.match(text, self.position)) and found.group():
                self.position = found.end()
            else:
                raise ValueError(f"{text[self.position]!r} stands where it cannot")

    def _move(self, target: str) -> Iterator[Found]:
        """Take one character, which leads to the next state."""
        if target == "key":
            yield self._found(Place.KEY)
        elif self._state in _BEGINNINGS and target not in (*_BEGINNINGS, "]"):
            yield self._found(Place.VALUE)
        if target in ("{", "[") and len(self._open) == _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        self.position += 1
        match target:
            case "{" | "[":
                self._open.append(target)
                self._state = "first key" if target == "{" else "first item"
            case "}" | "]":
                self._open.pop()
                yield self._end()
            case "key":
                self._state, self._is_key = "string", True
            case "end" if self._is_key:
                self._state, self._is_key = "after a key", False
                yield self._found(Place.AFTER_KEY)
            case "end":
                yield self._end()
            case _:
                self._state = target

    def _end(self) -> Found:
        self.is_whole = not self._open
        if self._open:
            self._state = f"after {self._open[-1]} and a value"
        return self._found(Place.AFTER_VALUE)

    def _found(self, place: Place) -> Found:
        return Found(place, len(self._open))
