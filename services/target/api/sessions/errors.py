"""What calls that have to do with sessions may fail with."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager

from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2

from services.service.errors import DOMAIN, RpcError
from services.target.sessions.errors import SessionExistsError, SessionQuotaError, UnknownSessionError


class SessionNotFoundError(RpcError):
    """There is no such session, or none any more: with its tokens it can be made again."""

    code = code_pb2.NOT_FOUND

    def details(self) -> Seq[Message]:
        """What tells it from other things that are not there."""
        return [error_details_pb2.ErrorInfo(reason="SESSION_NOT_FOUND", domain=DOMAIN)]


class SessionTakenError(RpcError):
    """The caller has a session of that name."""

    code = code_pb2.ALREADY_EXISTS

    def details(self) -> Seq[Message]:
        """What there is."""
        return [error_details_pb2.ErrorInfo(reason="SESSION_EXISTS", domain=DOMAIN)]


class SessionsFullError(RpcError):
    """Sessions hold as much as they may. When that changes nobody knows, so that no time to come back is told."""

    code = code_pb2.RESOURCE_EXHAUSTED

    def __init__(self, problem: str, *, of_caller: bool) -> None:
        super().__init__(problem)
        self._scope = "caller" if of_caller else "server"

    def details(self) -> Seq[Message]:
        """Whose sessions they are."""
        metadata = {"limit_of": self._scope}
        return [error_details_pb2.ErrorInfo(reason="SESSION_QUOTA", domain=DOMAIN, metadata=metadata)]


@contextmanager
def told_by_rpc() -> Iterator[None]:
    """What goes wrong with sessions, as what a call fails with."""
    try:
        yield
    except UnknownSessionError as error:
        raise SessionNotFoundError(str(error)) from error
    except SessionExistsError as error:
        raise SessionTakenError(str(error)) from error
    except SessionQuotaError as error:
        raise SessionsFullError(str(error), of_caller=error.of_owner) from error
