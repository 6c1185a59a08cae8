"""A failed call becomes the exception of its status, with all field violations."""

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

import outrider
from outrider import Violation
from outrider.errors import as_error
from tests.harness.servers.client_drivers import Collect, with_both_clients
from tests.harness.servers.scripted_server import Event, Request, ScriptedServer, ScriptedServicer

VIOLATIONS = [("sampling.top_p", "must be in (0, 1], not 7"), ("stop.strings[1]", "must not be empty")]


def bad_request() -> status_pb2.Status:
    """A status as a server makes it: with the original google.rpc messages, and a detail of an unknown type."""
    known, unknown = any_pb2.Any(), any_pb2.Any(type_url="type.googleapis.com/some.Other", value=b"\xff\xff")
    known.Pack(
        error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(field=field, description=description)
                for field, description in VIOLATIONS
            ]
        )
    )
    return status_pb2.Status(code=code_pb2.INVALID_ARGUMENT, message="2 fields are wrong", details=[unknown, known])


class RefusingServicer(ScriptedServicer):
    """Finds fault with every request."""

    def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:  # noqa: N802
        self.requests.append(request)
        context.abort_with_status(rpc_status.to_status(bad_request()))
        yield Event()


@with_both_clients
def test_violations_arrive(collect: Collect) -> None:
    with ScriptedServer(servicer_type=RefusingServicer) as server:
        with pytest.raises(outrider.InvalidArgument) as caught:
            collect(server.address, top_p=7)
        assert len(server.requests) == 1
    assert caught.value.violations == tuple(Violation(*violation) for violation in VIOLATIONS)
    assert str(caught.value) == (
        "2 fields are wrong\n"
        "  sampling.top_p: must be in (0, 1], not 7\n"
        "  stop.strings[1]: must not be empty"
    )  # fmt: skip


def failure(code: grpc.StatusCode, details: str = "why", trailers: tuple = ()) -> grpc.RpcError:
    """What gRPC raises."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details)


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, outrider.InvalidArgument),
        (grpc.StatusCode.FAILED_PRECONDITION, outrider.FingerprintMismatch),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, outrider.ResourceExhausted),
        (grpc.StatusCode.UNAVAILABLE, outrider.Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, outrider.DeadlineExceeded),
        (grpc.StatusCode.CANCELLED, outrider.Cancelled),
        (grpc.StatusCode.INTERNAL, outrider.OutriderError),
        (grpc.StatusCode.UNIMPLEMENTED, outrider.OutriderError),
    ],
)
def test_every_status_has_its_exception(code: grpc.StatusCode, cls: type[outrider.OutriderError]) -> None:
    error = as_error(failure(code))
    assert type(error) is cls
    assert (error.code, str(error)) == (code, "why")


def test_a_malformed_trailer_hides_nothing() -> None:
    error = as_error(failure(grpc.StatusCode.INVALID_ARGUMENT, trailers=(("grpc-status-details-bin", b"\xff\xff"),)))
    assert isinstance(error, outrider.InvalidArgument)
    assert error.violations == ()


def retry_info(seconds: float) -> tuple[str, bytes]:
    detail = any_pb2.Any()
    delay = Duration()
    delay.FromMilliseconds(round(1000 * seconds))
    detail.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=code_pb2.RESOURCE_EXHAUSTED, message="full", details=[detail])
    return "grpc-status-details-bin", status.SerializeToString()


@pytest.mark.parametrize(
    ("trailers", "retry_after"),
    [
        ((), None),
        ((("grpc-retry-pushback-ms", "1500"),), 1.5),
        ((retry_info(2.25),), 2.25),
        ((retry_info(2.25), ("grpc-retry-pushback-ms", "1500")), 1.5),
        ((retry_info(2.25), ("grpc-retry-pushback-ms", "-1")), None),
        ((retry_info(2.25), ("grpc-retry-pushback-ms", "soon")), None),
        ((retry_info(-1),), 0.0),
    ],
)
def test_a_full_server_says_when_to_come_back(trailers: tuple, retry_after: float | None) -> None:
    error = as_error(failure(grpc.StatusCode.RESOURCE_EXHAUSTED, trailers=trailers))
    assert isinstance(error, outrider.ResourceExhausted)
    assert error.retry_after == retry_after
