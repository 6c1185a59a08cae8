"""The RPCs of sessions, each a few steps between messages and a model's sessions."""

from outrider.v1 import generation_pb2
from services.service.access.caller import Caller
from services.target.api.sessions.errors import as_rpc_errors
from services.target.models.serving import Serving
from services.target.sessions.session import Session


def get_session(
    message: generation_pb2.GetSessionRequest, serving: Serving, caller: Caller
) -> generation_pb2.GetSessionResponse:
    """One of the caller's sessions; raises SessionNotFoundError."""
    with as_rpc_errors():
        session = serving.sessions.find(caller.owner, message.name)
    return generation_pb2.GetSessionResponse(session=write_session(session, serving, token_ids=message.token_ids))


def list_sessions(serving: Serving, caller: Caller) -> generation_pb2.ListSessionsResponse:
    """All of the caller's sessions, and the number of blocks that they hold."""
    sessions, owner = serving.sessions, caller.owner
    return generation_pb2.ListSessionsResponse(
        sessions=[write_session(session, serving, token_ids=False) for session in sessions.of(owner)],
        blocks=sessions.quota.num_blocks_of(owner),
        max_blocks=sessions.quota.most_blocks_of(owner),
    )


def delete_session(
    message: generation_pb2.DeleteSessionRequest, serving: Serving, caller: Caller
) -> generation_pb2.DeleteSessionResponse:
    """End one of the caller's sessions; raises SessionNotFoundError."""
    with as_rpc_errors():
        serving.sessions.drop(serving.sessions.find(caller.owner, message.name))
    return generation_pb2.DeleteSessionResponse()


def write_session(session: Session, serving: Serving, *, token_ids: bool) -> generation_pb2.Session:
    """The message of a session in its current state."""
    return generation_pb2.Session(
        name=session.name,
        model=serving.model.name,
        fingerprint=serving.model.fingerprint.digest,
        tokens=len(session.tokens),
        blocks=len(session.blocks),
        ttl_seconds=session.ttl,
        seconds_left=serving.sessions.seconds_left(session),
        token_ids=session.tokens if token_ids else (),
    )
