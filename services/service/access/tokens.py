"""Tokens: the hashes of the bearer tokens that a service accepts, and the caller of each."""

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

_MOST_TOKENS = 1024  # a received token is compared with every one, at some 0.1 microseconds each
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
    """The hash of each token, as bytes, and its caller."""

    entries: tuple[tuple[bytes, Caller], ...]

    def find(self, token: str) -> Caller | None:
        """Return the token's caller, or None; the time taken reveals nothing about the known tokens."""
        digest, found = hashlib.sha256(token.encode()).digest(), None
        for known, caller in self.entries:
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def read_callers(path: Path | None) -> Callers:
    """Return the callers named in a token file, or all callers if there is none; raises ConfigError."""
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
            raise ConfigError(f"{path}:{number}: at most {_MOST_TOKENS} tokens are allowed")
    if not entries:
        raise ConfigError(f"{path}: holds no token; `outrider token NAME` makes one")
    if len({digest for digest, _ in entries}) < len(entries):
        raise ConfigError(f"{path}: holds the same sha256 twice; each token must be on one line only")
    return Tokens(tuple(entries))


def new_token(name: str, scopes: Seq[Scope]) -> tuple[str, str]:
    """Return a random token and the line of a token file that makes a service accept it; raises ConfigError."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    digest = hashlib.sha256(token.encode()).hexdigest()
    line = json.dumps({"name": name, "sha256": digest, "scopes": [scope.value for scope in scopes]})
    _Line("the new line", line).entry()
    return token, line


class _Line:
    """One line of a token file, parsed field by field."""

    def __init__(self, where: str, line: str) -> None:
        self._where = where
        try:
            self._values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{where}: is not JSON: {error}") from error
        if not isinstance(self._values, dict):
            raise ConfigError(f"{where}: must be a JSON object with the fields {', '.join(_FIELDS)}")
        if unknown := self._values.keys() - set(_FIELDS):
            raise ConfigError(f"{where}: {shown(min(unknown))} is not a field; allowed: {', '.join(_FIELDS)}")

    def entry(self) -> tuple[bytes, Caller]:
        """Return the hash and the caller; raises ConfigError."""
        limits = CallerLimits(
            max_streams=self._count("max_streams"),
            max_waiting_tokens=self._count("max_waiting_tokens"),
            weight=self._weight(),
        )
        return self._digest(), Caller(self._name(), self._scopes(), limits)

    def _name(self) -> str:
        name = self._values.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= _MOST_LETTERS or not name.isprintable():
            raise self._invalid("name", name, f"a text of 1 to {_MOST_LETTERS} printable characters")
        return name

    def _digest(self) -> bytes:
        digest = self._values.get("sha256")
        if isinstance(digest, str) and len(digest) == _HASH_LETTERS:
            try:
                return bytes.fromhex(digest)
            except ValueError:
                pass  # raised below, without the value: it may be a token by mistake
        raise ConfigError(f"{self._where}: sha256 must be the {_HASH_LETTERS} hexadecimal digits of a token's SHA-256")

    def _scopes(self) -> frozenset[Scope]:
        names = self._values.get("scopes")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise self._invalid("scopes", names, f"a list of at least one of {_ALL_SCOPES}")
        if unknown := [name for name in names if name not in _SCOPES]:
            raise self._invalid("scopes", unknown[0], f"a list of at least one of {_ALL_SCOPES}")
        return frozenset(_SCOPES[name] for name in names)

    def _count(self, field: str) -> int | None:
        value: int | None = self._values.get(field)
        is_count = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LARGEST_LIMIT
        if value is not None and not is_count:
            raise self._invalid(field, value, f"an integer from 1 to {_LARGEST_LIMIT}, or left out")
        return value

    def _weight(self) -> float:
        value = self._values.get("weight", 1.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not 1 / _LARGEST_WEIGHT <= value <= _LARGEST_WEIGHT:
            raise self._invalid("weight", value, f"a number from {1 / _LARGEST_WEIGHT} to {_LARGEST_WEIGHT}")
        return float(value)

    def _invalid(self, field: str, value: Any, allowed: str) -> ConfigError:  # noqa: ANN401 - any JSON value
        return ConfigError(f"{self._where}: {field} is {shown(value)}; it must be {allowed}")
