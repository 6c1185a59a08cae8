"""Caller: the identity of a call's client, with its scopes and limits."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from grpc import aio

from services.service.errors import UnauthenticatedError
from services.service.printable import printable

_HEADER, _SCHEME = "authorization", "bearer"


class Scope(enum.Enum):
    """A group of methods that a token may allow."""

    GENERATE = "generate"
    ADMIN = "admin"
    KV_EVENTS = "kv-events"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """The limits of one caller; None: the server's default."""

    max_streams: int | None = None
    max_waiting_tokens: int | None = None  # of its queued prompts
    weight: float = 1.0  # its share relative to other callers


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a call; all connections with the same name are one caller."""

    name: str
    scopes: frozenset[Scope] = frozenset(Scope)
    limits: CallerLimits = field(default_factory=CallerLimits)
    is_known: bool = True  # by its token or certificate; else it is named after its connection

    @property
    def owner(self) -> str:
        """The owner of its sessions, which outlive calls: the name, or "" for all unknown callers together."""
        return self.name if self.is_known else ""


class Callers:
    """Finds the caller of each call: by its token if tokens are required, else by its certificate or connection."""

    def __init__(self, find: Callable[[str], Caller | None] | None = None) -> None:
        """`find` returns the caller of a token; without it no tokens are required, and every method is allowed."""
        self._find = find

    @property
    def need_tokens(self) -> bool:
        """Whether a call without a token is refused."""
        return self._find is not None

    def of(self, context: aio.ServicerContext[Any, Any]) -> Caller:
        """Return the caller of this call; raises UnauthenticatedError if its token is no longer valid."""
        if self._find is not None:
            return self.by_token(context.invocation_metadata() or ())
        identities = context.peer_identities()
        if not identities:
            return Caller(context.peer(), is_known=False)
        return Caller(printable(next(iter(identities)).decode(errors="replace")))

    def by_token(self, metadata: Iterable[tuple[str, str | bytes]]) -> Caller:
        """Return the caller of the token in a call's metadata; raises UnauthenticatedError if missing or unknown."""
        assert self._find is not None
        shown = [value for key, value in metadata if key == _HEADER]
        scheme, _, token = shown[0].partition(" ") if shown and isinstance(shown[0], str) else ("", "", "")
        if scheme.lower() != _SCHEME or not token:
            raise UnauthenticatedError("a token is needed, in the metadata `authorization: Bearer TOKEN`")
        if (caller := self._find(token)) is None:
            raise UnauthenticatedError("the token is not known to this server")
        return caller
