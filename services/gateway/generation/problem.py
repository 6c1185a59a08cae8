"""Problem: an error of a request, independent of the format of an API."""

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
    """The kind of a problem; `status` is its HTTP status."""

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
        """The HTTP status code."""
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


class Problem(Exception):  # noqa: N818 - it is usually not an error of ours
    """A request that cannot be answered; `field` is the API's own path of the bad field, if there is one."""

    def __init__(self, kind: Kind, message: str, field: str | None = None, *, retry_after: float | None = None) -> None:
        """`retry_after` is the seconds after which there may be room for the request."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.field = field
        self._retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers of the response: whole seconds to retry after, or that the connection closes."""
        headers = {} if self._retry_after is None else {"retry-after": str(math.ceil(self._retry_after))}
        return {**headers, "connection": "close"} if self.kind is Kind.TOO_SLOW else headers


def kind_of(error: OutriderError) -> Kind:
    """Return the kind of problem for an error of the RPC."""
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), Kind.BROKEN)
