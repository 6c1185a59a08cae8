"""RpcError: the errors that a call may fail with, each kind with its status and google.rpc details."""

import math
from collections.abc import Sequence as Seq
from typing import NamedTuple

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

DOMAIN = "outrider"
Trailers = tuple[tuple[str, str], ...]
_PUSHBACK = "grpc-retry-pushback-ms"
_MOST_LISTED = 1000  # bytes: the message is sent in a header, and the details contain every violation


class Violation(NamedTuple):
    """One invalid field of a request: its path, its value, and the allowed values."""

    field: str
    description: str


class RpcError(Exception):
    """A failure that is reported to the caller; the message is for people."""

    code: int = code_pb2.INTERNAL

    def details(self) -> Seq[Message]:
        """Return the google.rpc messages that report the same to programs."""
        return ()

    def trailers(self) -> Trailers:
        """Return trailing metadata to send besides the details."""
        return ()

    def status(self) -> grpc.Status:
        """Return the status and trailing metadata that end the call."""
        status = status_pb2.Status(code=self.code, message=str(self))
        for detail in self.details():
            status.details.add().Pack(detail)
        made: grpc.Status = rpc_status.to_status(status)  # type: ignore[no-untyped-call]
        return made


class InvalidRequestError(RpcError):
    """The request cannot be served by this model; every violation is reported."""

    code = code_pb2.INVALID_ARGUMENT

    def __init__(self, violations: Seq[Violation]) -> None:
        listed = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        kept = listed.encode(errors="replace")[:_MOST_LISTED].decode(errors="ignore")
        super().__init__(f"the request is not valid: {kept}")
        self.violations = tuple(violations)

    def details(self) -> Seq[Message]:
        """Return one violation per invalid field."""
        field_violation = error_details_pb2.BadRequest.FieldViolation
        return [
            error_details_pb2.BadRequest(
                field_violations=[
                    field_violation(field=violation.field, description=violation.description)
                    for violation in self.violations
                ]
            )
        ]


class UnauthenticatedError(RpcError):
    """The caller is unknown."""

    code = code_pb2.UNAUTHENTICATED

    def details(self) -> Seq[Message]:
        """Return the reason: a retry without another token is useless."""
        return [error_details_pb2.ErrorInfo(reason="TOKEN_NEEDED", domain=DOMAIN)]


class PermissionDeniedError(RpcError):
    """The caller is known, but may not call this method."""

    code = code_pb2.PERMISSION_DENIED

    def details(self) -> Seq[Message]:
        """Return the reason: the caller lacks a scope."""
        return [error_details_pb2.ErrorInfo(reason="SCOPE_NEEDED", domain=DOMAIN)]


class RequestCancelledError(RpcError):
    """An administrator has cancelled the request: it is not to be retried, here or elsewhere."""

    code = code_pb2.ABORTED

    def details(self) -> Seq[Message]:
        """Return the reason, which distinguishes it from other ABORTED calls."""
        return [error_details_pb2.ErrorInfo(reason="REQUEST_CANCELLED", domain=DOMAIN)]


class FingerprintMismatchError(RpcError):
    """A continuation of a generation that this server would not repeat byte for byte."""

    code = code_pb2.FAILED_PRECONDITION

    def __init__(self, *, received: str, served: str) -> None:
        super().__init__(f"the generation began under fingerprint {received[:64]!r}; this server has {served!r}")
        self._served = served

    def details(self) -> Seq[Message]:
        """Return the failed precondition and the fingerprint that would have met it."""
        violation = error_details_pb2.PreconditionFailure.Violation(
            type="FINGERPRINT", subject="continue_from.fingerprint", description=str(self)
        )
        return [
            error_details_pb2.PreconditionFailure(violations=[violation]),
            error_details_pb2.ErrorInfo(
                reason="FINGERPRINT_MISMATCH", domain=DOMAIN, metadata={"served_fingerprint": self._served}
            ),
        ]


class OverloadedError(RpcError):
    """The work limit is reached, or the queued work would take longer than the call's deadline allows."""

    code = code_pb2.RESOURCE_EXHAUSTED

    def __init__(self, problem: str, *, reason: str, of_caller: bool, retry_seconds: float) -> None:
        """`of_caller`: whether the caller's own limit is reached, rather than the total one."""
        super().__init__(f"{problem}; try again in {retry_seconds:.1f} s")
        self._reason = reason
        self._scope = "caller" if of_caller else "server"
        self._retry_ms = math.ceil(1000 * retry_seconds)

    def details(self) -> Seq[Message]:
        """Return when to retry, and which limit is reached."""
        delay = Duration()
        delay.FromMilliseconds(self._retry_ms)
        return [
            error_details_pb2.RetryInfo(retry_delay=delay),
            error_details_pb2.ErrorInfo(reason=self._reason, domain=DOMAIN, metadata={"limit_of": self._scope}),
        ]

    def trailers(self) -> Trailers:
        """Return when to retry, for gRPC's own retries."""
        return ((_PUSHBACK, str(self._retry_ms)),)


class UnavailableError(RpcError):
    """This server cannot serve now; another server can, or this one later."""

    code = code_pb2.UNAVAILABLE


class ReaderStalledError(UnavailableError):
    """The caller has not read its stream for too long; the generation can be continued."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the stream has not been read for {seconds:g} s; it can be resumed with continue_from")
        self.seconds = seconds

    def details(self) -> Seq[Message]:
        """Return the reason, which distinguishes it from a server that cannot serve."""
        return [error_details_pb2.ErrorInfo(reason="READER_STALLED", domain=DOMAIN)]


class NotFoundError(RpcError):
    """What the call names is not there."""

    code = code_pb2.NOT_FOUND


class AlreadyExistsError(RpcError):
    """What the call would make is there, and different."""

    code = code_pb2.ALREADY_EXISTS


class PreconditionError(RpcError):
    """This server was not started with what the call needs."""

    code = code_pb2.FAILED_PRECONDITION


class RangeError(RpcError):
    """A number that the caller wants to go on from is not known."""

    code = code_pb2.OUT_OF_RANGE


class SubscriberLostError(RpcError):
    """Events that a subscriber has not read are not kept any more."""

    code = code_pb2.DATA_LOSS


class UnimplementedError(RpcError):
    """This kind of service does not have this method or feature."""

    code = code_pb2.UNIMPLEMENTED


class DeadlineError(RpcError):
    """The call's deadline passed before the answer was complete."""

    code = code_pb2.DEADLINE_EXCEEDED


class InternalError(RpcError):
    """A fault of the server; its log has the details."""

    code = code_pb2.INTERNAL


class EngineFailedError(RuntimeError):
    """The engine's thread has died: nothing can be computed any more."""
