"""JsonFields: a JSON object of a model folder, read field by field with clear errors."""

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard, overload

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.model_file import MIB, read_model_text

_LARGEST_INTEGER = 2**31 - 1  # sizes and positions are 32-bit in the decoder
LEAST_NUMBER, LARGEST_NUMBER = 1e-12, 1e12  # products and quotients of two are still normal in float32
_RANGE = f"from {LEAST_NUMBER:g} to {LARGEST_NUMBER:g}"
_MOST_BYTES = 1 * MIB
_MOST_SHOWN = 200  # characters of a value, in an error


def shown(value: object) -> str:
    """Return a JSON value as an error quotes it: on one line, and truncated if it is long."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a JSON value is a finite number; true and false, which are integers in Python, are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_moderate(value: object) -> TypeGuard[int | float]:
    return is_number(value) and LEAST_NUMBER <= value <= LARGEST_NUMBER


class JsonFields:
    """The fields of one JSON object; null counts as absent, except where it switches a feature off.

    All methods that return a checked value raise CheckpointError for another one.
    """

    def __init__(self, values: dict[str, Any], where: str, names: Mapping[str, str] | None = None) -> None:
        """`names` are the file's own names of fields, for errors; "a.b" is field b of the nested object a."""
        self._values = values
        self._where = where
        self._names = names or {}

    @classmethod
    def from_file(cls, path: Path, *, most_bytes: int = _MOST_BYTES) -> "JsonFields":
        """Read a file; raises CheckpointError if it is missing, not regular, too large, or no JSON object."""
        text = read_model_text(path, most_bytes=most_bytes)
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path}: cannot be read as JSON: {error}") from error
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}: is not a JSON object")
        return cls(values, str(path))

    @classmethod
    def from_file_if_any(cls, path: Path, *, most_bytes: int = _MOST_BYTES) -> "JsonFields":
        """Read an optional file; without it there are no fields. Raises CheckpointError as `from_file` does."""
        return cls.from_file(path, most_bytes=most_bytes) if path.exists() else cls({}, str(path))

    def completed(self, defaults: Mapping[str, Any]) -> "JsonFields":
        """Return the fields with defaults for absent ones; null counts as present."""
        return JsonFields({**defaults, **self._values}, self._where, self._names)

    def replaced(self, values: Mapping[str, Any]) -> "JsonFields":
        """Return the fields with some of them set."""
        return JsonFields({**self._values, **values}, self._where, self._names)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the fields that are not null."""
        return (name for name in self._values if name in self)

    def __contains__(self, name: str) -> bool:
        """Return whether the field is present and not null."""
        return self._values.get(name) is not None

    @property
    def where(self) -> str:
        """The file, and the object in it, for messages."""
        return self._where

    def raw(self, name: str) -> object:
        """Return a field's value unchecked, None if it is absent."""
        return self._values.get(name)

    def error(self, name: str, problem: str) -> CheckpointError:
        """Make the error that names this file and field."""
        return CheckpointError(f"{self._where}: field {self._names.get(name, name)!r}: {problem}")

    def nested(self, name: str) -> "JsonFields | None":
        """Return a nested object, None if it is absent or empty."""
        value = self._values.get(name)
        if value is None or value == {}:
            return None
        if not isinstance(value, dict):
            raise self.error(name, f"must be an object, is {shown(value)}")
        return JsonFields(value, f"{self._where}: {name}", self._nested_names(name))

    def with_nested(self, name: str) -> "JsonFields":
        """Return the fields with those of a nested object beside them, before others of the same name."""
        if (own := self.nested(name)) is None:
            return self
        names = {key: f"{name}.{key}" for key in own}
        return JsonFields({**self._values, **{key: own.raw(key) for key in own}}, self._where, {**self._names, **names})

    def required(self, name: str) -> "JsonFields":
        """Return a nested object that must be present."""
        if (fields := self.nested(name)) is None:
            raise self.error(name, "is missing")
        return fields

    def empty(self, name: str) -> "JsonFields":
        """Return a nested object without fields, in place of an absent one."""
        return JsonFields({}, f"{self._where}: {name}", self._nested_names(name))

    def integer(
        self, name: str, default: int | None = None, *, minimum: int = 1, maximum: int = _LARGEST_INTEGER
    ) -> int:
        """Return a whole number from `minimum` to `maximum`; without a default the field is required."""
        value = self._required(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise self.error(name, f"must be a whole number from {minimum} to {maximum}, is {shown(value)}")
        return value

    def integer_or_off(self, name: str) -> int:
        """Return a whole number above 0, or 0 if the field is null; it must be present."""
        return 0 if self._is_null(name) else self.integer(name)

    def integer_or_zero(self, name: str, *, maximum: int) -> int:
        """Return a whole number up to `maximum`, or 0 if the field is null; it must be present."""
        return 0 if self._is_null(name) else self.integer(name, minimum=0, maximum=maximum)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number above 0 within a range safe for float32; without a default the field is required."""
        value = self._required(name, default)
        if not _is_moderate(value):
            raise self.error(name, f"must be a finite number above 0, {_RANGE}, is {shown(value)}")
        return float(value)

    def number_or_off(self, name: str) -> float:
        """Return a finite number above 0, or 0 if the field is null; it must be present."""
        return 0.0 if self._is_null(name) else self.number(name)

    def numbers(self, name: str, count: int) -> list[float]:
        """Return a list of `count` finite numbers above 0; it is required."""
        values = self._required(name, None)
        if not isinstance(values, list) or len(values) != count or not all(_is_moderate(value) for value in values):
            raise self.error(name, f"must be {count} finite numbers above 0, {_RANGE}, is {shown(values)}")
        return [float(value) for value in values]

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean."""
        value = self._required(name, default)
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, is {shown(value)}")
        return value

    @overload
    def choice(self, name: str, allowed: Collection[str], default: str) -> str: ...
    @overload
    def choice(self, name: str, allowed: Collection[str]) -> str: ...
    def choice(self, name: str, allowed: Collection[str], default: str | None = None) -> str:
        """Return one of the allowed strings; without a default the field is required."""
        value = self._required(name, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.error(name, f"{shown(value)} is not supported; allowed are {', '.join(sorted(allowed))}")
        return value

    def _nested_names(self, name: str) -> dict[str, str]:
        return {key.removeprefix(f"{name}."): own for key, own in self._names.items() if key.startswith(f"{name}.")}

    def _is_null(self, name: str) -> bool:
        return name in self._values and self._values[name] is None

    def _required(self, name: str, default: object) -> object:
        value = default if self._values.get(name) is None else self._values[name]
        if value is None:
            raise self.error(name, "is missing")
        return value
