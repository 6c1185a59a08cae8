"""Caller: who asks, and what it may."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from grpc import aio

from services.service.errors import UnauthenticatedError
from services.service.printable import printable

_HEADER, _SCHEME = "authorization", "bearer"


class Scope(enum.Enum):
    """A kind of methods, which a caller may call or not."""

    GENERATE = "generate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """What one caller may have at once; None leaves it to the server."""

    max_streams: int | None = None
    max_waiting_tokens: int | None = None  # of prompts that wait
    weight: float = 1.0  # its share beside other callers


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: everything that has one name is one caller, however many its connections are."""

    name: str
    scopes: frozenset[Scope] = frozenset(Scope)
    limits: CallerLimits = field(default_factory=CallerLimits)
    is_known: bool = True  # by what it has shown; else it is named after its connection

    @property
    def owner(self) -> str:
        """Whose is what outlives its calls: all callers that are not known are one, without a name."""
        return self.name if self.is_known else ""


class Callers:
    """Knows the caller of each call: by its token where tokens are needed, else by its certificate or connection."""

    def __init__(self, find: Callable[[str], Caller | None] | None = None) -> None:
        """`find` says whose a token is; without it nobody needs one, and everybody may call everything."""
        self._find = find

    @property
    def need_tokens(self) -> bool:
        """Whether a call without a token is refused."""
        return self._find is not None

    def of(self, context: aio.ServicerContext[Any, Any]) -> Caller:
        """Who asks in this call; raises UnauthenticatedError where its token is no longer good."""
        if self._find is not None:
            return self.by_token(context.invocation_metadata() or ())
        identities = context.peer_identities()
        if not identities:
            return Caller(context.peer(), is_known=False)
        return Caller(printable(next(iter(identities)).decode(errors="replace")))

    def by_token(self, metadata: Iterable[tuple[str, str | bytes]]) -> Caller:
        """Whose token a call's metadata hold; raises UnauthenticatedError where there is none, or an unknown one."""
        assert self._find is not None
        shown = [value for key, value in metadata if key == _HEADER]
        scheme, _, token = shown[0].partition(" ") if shown and isinstance(shown[0], str) else ("", "", "")
        if scheme.lower() != _SCHEME or not token:
            raise UnauthenticatedError("a token is needed, as the metadata `authorization: Bearer TOKEN`")
        if (caller := self._find(token)) is None:
            raise UnauthenticatedError("the token is none that this server knows")
        return caller
