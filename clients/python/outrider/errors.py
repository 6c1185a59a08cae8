"""The errors that a call can raise, named after the gRPC statuses they are read from."""

# ruff: noqa: N818

from collections.abc import Iterable
from typing import NamedTuple, cast

import grpc
from google.protobuf.message import DecodeError, Message

from outrider.servers import unreached
from outrider.types import Received
from outrider.v1 import errors_pb2

_DETAILS_KEY = "grpc-status-details-bin"
_PUSHBACK_KEY = "grpc-retry-pushback-ms"
_BAD_REQUEST = "/google.rpc.BadRequest"
_RETRY_INFO = "/google.rpc.RetryInfo"
# How gRPC reports a stream that a dying server or a proxy has reset, beside UNAVAILABLE.
_BROKEN_CODES = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
_BROKEN_MARKS = ("RST_STREAM", "GOAWAY", "Stream removed")
# And how it reports, as UNAVAILABLE, that a connection went with a call on it. One that never was is another matter.
_LOST_MARKS = (*_BROKEN_MARKS, "Socket closed", "Transport closed", "reset by peer", "Broken pipe", "recvmsg", "ping")


class OutriderError(Exception):
    """A call failed. Statuses without a class of their own raise this one."""

    code = grpc.StatusCode.UNKNOWN
    received: Received | None = None
    """What had arrived of a generation before it failed."""

    def __init__(self, message: str, code: grpc.StatusCode | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class Violation(NamedTuple):
    """One thing wrong with a request: the path of the field, and what it allows."""

    field: str
    description: str


class InvalidArgument(OutriderError):
    """The request is not valid; `violations` lists everything that is wrong with it."""

    code = grpc.StatusCode.INVALID_ARGUMENT

    def __init__(self, message: str, violations: Iterable[Violation] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)

    def __str__(self) -> str:
        message = super().__str__()
        lines = [f"{violation.field}: {violation.description}" for violation in self.violations]
        if lines and lines[0] in message:  # which some servers list there too
            message = message.partition(":")[0]
        return "\n  ".join([message, *lines])


class FingerprintMismatch(OutriderError):
    """No server is left that would continue with the same bytes."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Unauthenticated(OutriderError):
    """The server does not know the token, or needs one."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(OutriderError):
    """The server knows the token, which has not the scope that the call needs."""

    code = grpc.StatusCode.PERMISSION_DENIED


class NotFound(OutriderError):
    """The server has no session of that name, or no longer: with its tokens it can be made again."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(OutriderError):
    """There is a session of that name."""

    code = grpc.StatusCode.ALREADY_EXISTS


class ResourceExhausted(OutriderError):
    """The server is full, or cannot begin in time, and neither `max_retries` nor the time allows another try."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retry_after: float | None = None
    """Seconds after which the server wants to be asked again; None if it did not say, or does not want to."""


class Unavailable(OutriderError):
    """No server could be reached, or the connection broke, more often than `max_retries` allows."""

    code = grpc.StatusCode.UNAVAILABLE
    broke = False
    """Whether the connection went while the server was at work on the call."""
    unreached = False
    """Whether no connection to the server could be made."""


class ServerLost(Unavailable):
    """The connection broke before anything had arrived, more often than `max_lost_retries` allows.

    The call is not carried to further servers: it may be what these died of.
    """


class DeadlineExceeded(OutriderError):
    """The time given to the call ran out."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(OutriderError):
    """The call was cancelled."""

    code = grpc.StatusCode.CANCELLED


_CLASSES: dict[grpc.StatusCode, type[OutriderError]] = {
    cls.code: cls
    for cls in (
        *(FingerprintMismatch, Unauthenticated, PermissionDenied, NotFound, AlreadyExists),
        *(ResourceExhausted, Unavailable, DeadlineExceeded, Cancelled),
    )
}


def as_error(failure: grpc.RpcError | OutriderError) -> OutriderError:
    """The error that stands for a failed call, of either gRPC API."""
    if isinstance(failure, OutriderError):
        return failure
    code, message = failure.code(), failure.details() or ""
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidArgument(message, _violations(failure))
    if code in _BROKEN_CODES and any(mark in message for mark in _BROKEN_MARKS):
        code = grpc.StatusCode.UNAVAILABLE
    if code is grpc.StatusCode.UNAVAILABLE:
        return _unavailable(message)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return _exhausted(message, failure)
    cls = _CLASSES.get(code)
    return OutriderError(message, code) if cls is None else cls(message)


def _unavailable(message: str) -> Unavailable:
    is_unreached = message.startswith(unreached.MARKS)
    error = Unavailable(unreached.reason_of(message) if is_unreached else message)
    error.unreached = is_unreached
    error.broke = any(mark in message for mark in _LOST_MARKS) and not error.unreached
    return error


def _exhausted(message: str, failure: grpc.RpcError) -> ResourceExhausted:
    error = ResourceExhausted(message)
    retry_info = errors_pb2.RetryDetail()
    if (pushback := _trailers(failure).get(_PUSHBACK_KEY)) is not None:
        milliseconds = str(pushback)
        error.retry_after = int(milliseconds) / 1000 if milliseconds.isascii() and milliseconds.isdecimal() else None
    elif _read_detail(failure, _RETRY_INFO, retry_info):
        error.retry_after = max(retry_info.retry_delay.ToMilliseconds() / 1000, 0.0)
    return error


def _violations(failure: grpc.RpcError) -> list[Violation]:
    bad_request = errors_pb2.BadRequestDetail()
    _read_detail(failure, _BAD_REQUEST, bad_request)
    return [Violation(violation.field, violation.description) for violation in bad_request.field_violations]


def _read_detail(failure: grpc.RpcError, kind: str, detail: Message) -> bool:
    """Read the error's detail of a kind, and say whether there is one; the status alone still says what is wrong."""
    status = errors_pb2.ErrorStatus()
    packed = _trailers(failure).get(_DETAILS_KEY)
    found = False
    try:
        status.MergeFromString(packed if isinstance(packed, bytes) else b"")
        for each in status.details:
            if each.type_url.endswith(kind):
                detail.MergeFromString(each.value)
                found = True
    except DecodeError:
        detail.Clear()
        return False
    return found


def _trailers(failure: grpc.RpcError) -> dict[str, str | bytes]:
    return dict(cast(Iterable[tuple[str, str | bytes]], failure.trailing_metadata() or ()))
