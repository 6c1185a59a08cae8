"""RpcError: what a call may fail with, each kind with its status and google.rpc details."""

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


class Violation(NamedTuple):
    """One thing that is wrong with a request: the path of the field, and what it holds and may hold."""

    field: str
    description: str


class RpcError(Exception):
    """A failure that the caller is told of; the message is for a person."""

    code: int = code_pb2.INTERNAL

    def details(self) -> Seq[Message]:
        """The google.rpc messages that say the same to a program."""
        return ()

    def trailers(self) -> Trailers:
        """Metadata that ends the call beside these."""
        return ()

    def status(self) -> grpc.Status:
        """The status and trailing metadata that end the call."""
        status = status_pb2.Status(code=self.code, message=str(self))
        for detail in self.details():
            status.details.add().Pack(detail)
        made: grpc.Status = rpc_status.to_status(status)  # type: ignore[no-untyped-call]
        return made


class InvalidRequestError(RpcError):
    """The request cannot be served by this model; every violation is named."""

    code = code_pb2.INVALID_ARGUMENT

    def __init__(self, violations: Seq[Violation]) -> None:
        fields = ", ".join(dict.fromkeys(violation.field for violation in violations))
        super().__init__(f"the request is not valid: see {fields}")
        self.violations = tuple(violations)

    def details(self) -> Seq[Message]:
        """One violation per bad field."""
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
    """Nobody knows who calls."""

    code = code_pb2.UNAUTHENTICATED

    def details(self) -> Seq[Message]:
        """That another try without another token is in vain."""
        return [error_details_pb2.ErrorInfo(reason="TOKEN_NEEDED", domain=DOMAIN)]


class PermissionDeniedError(RpcError):
    """The caller is known, and may not call this."""

    code = code_pb2.PERMISSION_DENIED

    def details(self) -> Seq[Message]:
        """That it is for want of a scope."""
        return [error_details_pb2.ErrorInfo(reason="SCOPE_NEEDED", domain=DOMAIN)]


class RequestCancelledError(RpcError):
    """Those who run the server have ended the request: it is not to be tried again, here or elsewhere."""

    code = code_pb2.ABORTED

    def details(self) -> Seq[Message]:
        """What tells it from other ends."""
        return [error_details_pb2.ErrorInfo(reason="REQUEST_CANCELLED", domain=DOMAIN)]


class FingerprintMismatchError(RpcError):
    """A continuation of a generation whose bytes this server would not repeat."""

    code = code_pb2.FAILED_PRECONDITION

    def __init__(self, *, received: str, served: str) -> None:
        super().__init__(f"the generation began under fingerprint {received[:64]!r}; this server has {served!r}")
        self._served = served

    def details(self) -> Seq[Message]:
        """Which precondition failed, and the fingerprint that would have met it."""
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
    """There is as much work here as may be, or more than can be done in the call's time."""

    code = code_pb2.RESOURCE_EXHAUSTED

    def __init__(self, problem: str, *, reason: str, of_caller: bool, retry_seconds: float) -> None:
        """`of_caller` says whether the caller's own work is too much, rather than everybody's."""
        super().__init__(f"{problem}; try again in {retry_seconds:.1f} s")
        self._reason = reason
        self._scope = "caller" if of_caller else "server"
        self._retry_ms = math.ceil(1000 * retry_seconds)

    def details(self) -> Seq[Message]:
        """When to try again, and of what there is too much."""
        delay = Duration()
        delay.FromMilliseconds(self._retry_ms)
        return [
            error_details_pb2.RetryInfo(retry_delay=delay),
            error_details_pb2.ErrorInfo(reason=self._reason, domain=DOMAIN, metadata={"limit_of": self._scope}),
        ]

    def trailers(self) -> Trailers:
        """When to try again, for gRPC's own retries."""
        return ((_PUSHBACK, str(self._retry_ms)),)


class UnavailableError(RpcError):
    """This server cannot serve now; another one, or this one later, can."""

    code = code_pb2.UNAVAILABLE


class ReaderStalledError(UnavailableError):
    """The caller has not read its stream for too long; the generation can be continued."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nobody has read the stream for {seconds:g} s; it can be taken up again with continue_from")
        self.seconds = seconds

    def details(self) -> Seq[Message]:
        """What tells it from a server that cannot serve."""
        return [error_details_pb2.ErrorInfo(reason="READER_STALLED", domain=DOMAIN)]


class UnimplementedError(RpcError):
    """This kind of service has no such thing."""

    code = code_pb2.UNIMPLEMENTED


class DeadlineError(RpcError):
    """The call's time is over before there is a whole answer."""

    code = code_pb2.DEADLINE_EXCEEDED


class InternalError(RpcError):
    """A fault of the server; its log has the particulars."""

    code = code_pb2.INTERNAL


class EngineFailedError(RuntimeError):
    """The engine thread has died: nothing can be computed any more."""
