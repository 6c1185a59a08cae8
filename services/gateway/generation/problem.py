"""Problem: what is wrong with a request, or went wrong with it, before an API puts it into its own words."""

import math
from enum import Enum

from outrider import (
    Cancelled,
    DeadlineExceeded,
    FingerprintMismatch,
    InvalidArgument,
    NotFound,
    OutriderError,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)


class Kind(Enum):
    """What sort of problem it is; the value is what tells it from others, `status` HTTP's number for it."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not found"
    WRONG_METHOD = "wrong method"
    TOO_SLOW = "too slow"
    CHANGED = "changed"
    TOO_LARGE = "too large"
    WRONG_TYPE = "wrong type"
    FULL = "full"
    BROKEN = "broken"
    UNAVAILABLE = "unavailable"
    LATE = "late"

    @property
    def status(self) -> int:
        """HTTP's number."""
        return _STATUS[self]


_STATUS = {
    Kind.INVALID: 400,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.WRONG_METHOD: 405,
    Kind.TOO_SLOW: 408,
    Kind.CHANGED: 409,
    Kind.TOO_LARGE: 413,
    Kind.WRONG_TYPE: 415,
    Kind.FULL: 429,
    Kind.BROKEN: 500,
    Kind.UNAVAILABLE: 503,
    Kind.LATE: 504,
}
_KINDS: tuple[tuple[type[OutriderError], Kind], ...] = (
    (InvalidArgument, Kind.INVALID),
    (Unauthenticated, Kind.UNAUTHENTICATED),
    (PermissionDenied, Kind.FORBIDDEN),
    (NotFound, Kind.NOT_FOUND),
    (ResourceExhausted, Kind.FULL),
    (FingerprintMismatch, Kind.CHANGED),
    (Unavailable, Kind.UNAVAILABLE),
    (Cancelled, Kind.UNAVAILABLE),
    (DeadlineExceeded, Kind.LATE),
)


class Problem(Exception):  # noqa: N818 - it is none of ours that went wrong
    """A request that cannot be answered; `field` is the API's own path of what is wrong."""

    def __init__(self, kind: Kind, message: str, field: str | None = None, *, retry_after: float | None = None) -> None:
        """After `retry_after` seconds there may be room."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.field = field
        self._retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """What HTTP tells of it beside its number: whole seconds after which to ask again, or that it ends there."""
        told = {} if self._retry_after is None else {"retry-after": str(math.ceil(self._retry_after))}
        return {**told, "connection": "close"} if self.kind is Kind.TOO_SLOW else told


def kind_of(error: OutriderError) -> Kind:
    """What sort of problem an error of the RPC is."""
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), Kind.BROKEN)
