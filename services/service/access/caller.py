"""Caller: who asks, and what it may."""

import enum
from dataclasses import dataclass, field
from typing import Any

from grpc import aio


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


class Callers:
    """Knows the caller of each call: its connection, which may call everything."""

    def of(self, context: aio.ServicerContext[Any, Any]) -> Caller:
        """Who asks in this call."""
        return Caller(context.peer())
