"""The errors of calls that use sessions."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager

from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2

from services.service.errors import DOMAIN, RpcError
from services.target.sessions.errors import SessionExistsError, SessionQuotaError, UnknownSessionError


class SessionNotFoundError(RpcError):
    """There is no such session, or no longer; the client can create it again from its tokens."""

    code = code_pb2.NOT_FOUND

    def details(self) -> Seq[Message]:
        """The reason that distinguishes it from other NOT_FOUND errors."""
        return [error_details_pb2.ErrorInfo(reason="SESSION_NOT_FOUND", domain=DOMAIN)]


class SessionTakenError(RpcError):
    """The caller already has a session of that name."""

    code = code_pb2.ALREADY_EXISTS

    def details(self) -> Seq[Message]:
        """The reason that a client can check for."""
        return [error_details_pb2.ErrorInfo(reason="SESSION_EXISTS", domain=DOMAIN)]


class SessionsFullError(RpcError):
    """Sessions hold as many blocks as they may. When that will change is unknown, so that no retry time is sent."""

    code = code_pb2.RESOURCE_EXHAUSTED

    def __init__(self, problem: str, *, of_caller: bool) -> None:
        super().__init__(problem)
        self._scope = "caller" if of_caller else "server"

    def details(self) -> Seq[Message]:
        """The reason, and whether the limit is the caller's or the server's."""
        metadata = {"limit_of": self._scope}
        return [error_details_pb2.ErrorInfo(reason="SESSION_QUOTA", domain=DOMAIN, metadata=metadata)]


@contextmanager
def as_rpc_errors() -> Iterator[None]:
    """Raise the sessions' errors as the errors of a call."""
    try:
        yield
    except UnknownSessionError as error:
        raise SessionNotFoundError(str(error)) from error
    except SessionExistsError as error:
        raise SessionTakenError(str(error)) from error
    except SessionQuotaError as error:
        raise SessionsFullError(str(error), of_caller=error.of_owner) from error
