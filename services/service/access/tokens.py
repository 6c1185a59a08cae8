"""Tokens: which bearer tokens a service accepts, by their hashes, and the caller that each stands for."""

import hashlib
import hmac
import json
import math
import secrets
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.engine.config import ConfigError
from services.engine.files.json_fields import shown
from services.service.access.caller import Caller, CallerLimits, Callers, Scope
from services.service.access.watched_files import WatchedFiles

_MOST_TOKENS = 1024  # every one is compared with what is shown, which takes some 0.1 microseconds each
_MOST_LETTERS = 64  # of a name
_LARGEST_LIMIT = 1 << 31
_LARGEST_WEIGHT = 1000
_HASH_LETTERS = 64
_TOKEN_BYTES = 32
_SCOPES = {scope.value: scope for scope in Scope}
_FIELDS = ("name", "sha256", "scopes", "max_streams", "max_waiting_tokens", "weight")
_ALL_SCOPES = ", ".join(_SCOPES)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The hash of each token, as bytes, and whose it is."""

    entries: tuple[tuple[bytes, Caller], ...]

    def find(self, token: str) -> Caller | None:
        """Whose token it is; how long this takes says nothing of the tokens that there are."""
        digest, found = hashlib.sha256(token.encode()).digest(), None
        for known, caller in self.entries:
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def read_callers(path: Path | None) -> Callers:
    """The callers that a file of tokens names, or everybody without one; raises ConfigError for a wrong file."""
    if path is None:
        return Callers()
    tokens = WatchedFiles([path], lambda contents: read_tokens(contents[0], path))

    def find(token: str) -> Caller | None:
        return tokens.value.find(token)

    return Callers(find)


def read_tokens(data: bytes, path: Path) -> Tokens:
    """Read a JSON object from each line that is not empty or a comment; raises ConfigError naming line and field."""
    entries: list[tuple[bytes, Caller]] = []
    lines = data.decode(errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            entries.append(_Line(f"{path}:{number}", line).entry())
        if len(entries) > _MOST_TOKENS:
            raise ConfigError(f"{path}:{number}: there may be {_MOST_TOKENS} tokens at most")
    if not entries:
        raise ConfigError(f"{path}: holds no token; `outrider token NAME` makes one")
    if len({digest for digest, _ in entries}) < len(entries):
        raise ConfigError(f"{path}: holds the same sha256 twice; each token must stand in one line")
    return Tokens(tuple(entries))


def new_token(name: str, scopes: Seq[Scope]) -> tuple[str, str]:
    """A token drawn from the system's randomness, and the line that makes a service accept it."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    digest = hashlib.sha256(token.encode()).hexdigest()
    line = json.dumps({"name": name, "sha256": digest, "scopes": [scope.value for scope in scopes]})
    _Line("the new line", line).entry()
    return token, line


class _Line:
    """One line, read field by field."""

    def __init__(self, where: str, line: str) -> None:
        self._where = where
        try:
            self._values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{where}: is no JSON: {error}") from error
        if not isinstance(self._values, dict):
            raise ConfigError(f"{where}: must be a JSON object with the fields {', '.join(_FIELDS)}")
        if unknown := self._values.keys() - set(_FIELDS):
            raise ConfigError(f"{where}: {shown(min(unknown))} is no field; allowed: {', '.join(_FIELDS)}")

    def entry(self) -> tuple[bytes, Caller]:
        """The hash and the caller; raises ConfigError."""
        limits = CallerLimits(
            max_streams=self._count("max_streams"),
            max_waiting_tokens=self._count("max_waiting_tokens"),
            weight=self._weight(),
        )
        return self._digest(), Caller(self._name(), self._scopes(), limits)

    def _name(self) -> str:
        name = self._values.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= _MOST_LETTERS or not name.isprintable():
            raise self._wrong("name", name, f"a text of 1 to {_MOST_LETTERS} printable characters")
        return name

    def _digest(self) -> bytes:
        digest = self._values.get("sha256")
        if isinstance(digest, str) and len(digest) == _HASH_LETTERS:
            try:
                return bytes.fromhex(digest)
            except ValueError:
                pass  # told below: what stands here may be a token by mistake, and is not repeated
        raise ConfigError(f"{self._where}: sha256 must be the {_HASH_LETTERS} hexadecimal digits of a token's SHA-256")

    def _scopes(self) -> frozenset[Scope]:
        names = self._values.get("scopes")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise self._wrong("scopes", names, f"a list of at least one of {_ALL_SCOPES}")
        if unknown := [name for name in names if name not in _SCOPES]:
            raise self._wrong("scopes", unknown[0], f"a list of at least one of {_ALL_SCOPES}")
        return frozenset(_SCOPES[name] for name in names)

    def _count(self, field: str) -> int | None:
        value: int | None = self._values.get(field)
        is_count = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LARGEST_LIMIT
        if value is not None and not is_count:
            raise self._wrong(field, value, f"an integer from 1 to {_LARGEST_LIMIT}, or left out")
        return value

    def _weight(self) -> float:
        value = self._values.get("weight", 1.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not 1 / _LARGEST_WEIGHT <= value <= _LARGEST_WEIGHT:
            raise self._wrong("weight", value, f"a number from {1 / _LARGEST_WEIGHT} to {_LARGEST_WEIGHT}")
        return float(value)

    def _wrong(self, field: str, value: Any, allowed: str) -> ConfigError:  # noqa: ANN401 - whatever JSON may hold
        return ConfigError(f"{self._where}: {field} is {shown(value)}; it must be {allowed}")
