"""Sessions: the RPCs that create, show and end them, and the requests that continue one."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import aclosing, contextmanager
from dataclasses import replace
from uuid import uuid4

from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2

from outrider.v1 import generation_pb2
from services.engine.decoder.native import BLOCK_SIZE
from services.engine.range import Range
from services.engine.request import CachePolicy, OutputOptions, Request
from services.service.access.caller import Caller
from services.service.errors import DOMAIN, RpcError
from services.service.validation import Violations
from services.target.api.call import Call
from services.target.api.prompt_requests import prompt_events, prompt_request
from services.target.api.prompts import read_prompt
from services.target.api.request_messages import GenerationRequest
from services.target.api.requests import check_name, check_salt, read_request_id, read_share
from services.target.models.serving import Serving
from services.target.sessions.session import (
    Session,
    SessionExistsError,
    SessionQuotaError,
    UnknownSessionError,
    pinned_tokens,
)

_DEFAULT_TTL = 600.0  # seconds
_TTL = Range(minimum=1, maximum=24 * 3600)


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


async def begin_session(message: generation_pb2.CreateSessionRequest, call: Call) -> tuple[Session, Request]:
    """A session, which must later be opened or dropped, and the request that computes it.

    Raises InvalidRequestError, SessionNotFoundError, SessionTakenError and SessionsFullError.
    """
    found, caller, sessions = Violations(), call.caller, call.serving.sessions
    with _as_rpc_errors():
        parent = sessions.use(caller.owner, message.parent) if message.HasField("parent") else None
    if message.prompt.heal:
        found.add("prompt.heal", "is true", "false, or not set")
    if message.prompt.HasField("infill"):
        found.add("prompt.infill", "is set", "not to be")
    ttl = message.ttl_seconds if message.HasField("ttl_seconds") else _DEFAULT_TTL
    found.check_number("ttl_seconds", ttl, _TTL)
    name, salt = _read_name(message, found), _read_salt(message, parent, found)
    request_id, share = read_request_id(message, found), read_share(message, caller, found)
    tokens = await read_prompt(message.prompt, call.model, found, session_tokens=parent.tokens if parent else ())
    found.raise_if_any()
    with _as_rpc_errors():
        session = sessions.begin(caller.owner, name, tokens, salt=salt, ttl=ttl)
    request = prompt_request(
        # One token more than the blocks hold: without a draw after it, the last token is not computed.
        tokens[: pinned_tokens(len(tokens), BLOCK_SIZE) + 1],
        request_id=request_id,
        output=OutputOptions(),
        cache=CachePolicy(salt=salt),
        share=share,
        lora=call.model.lora,
        deadline=call.deadline,
    )
    return session, replace(request, num_scored=0, pins=True)


async def compute_session(session: Session, request: Request, call: Call) -> None:
    """Have the session's blocks computed and open it; if that fails in any way, the session is dropped."""
    sessions = call.serving.sessions
    try:
        if session.blocks:
            call.admit_tokens(len(request.prompt))
            (generation,) = await call.submit(call.serving.engine, [request])
            session.pinned = generation.number
            async with aclosing(prompt_events([generation], call.serving.statistics.observe)) as events:
                async for _ in events:
                    pass
    except BaseException:
        sessions.drop(session)
        raise
    sessions.open(session)


def get_session(
    message: generation_pb2.GetSessionRequest, serving: Serving, caller: Caller
) -> generation_pb2.GetSessionResponse:
    """One of the caller's sessions; raises SessionNotFoundError."""
    with _as_rpc_errors():
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
    with _as_rpc_errors():
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


def used_session(message: GenerationRequest, serving: Serving, caller: Caller, found: Violations) -> Session:
    """The session that a request names, whose time to live starts again; raises SessionNotFoundError.

    Fields that do not go with a session are added to `found`.
    """
    if message.HasField("continue_from"):
        allowed = "not to be, with continue_from, whose prompt is all of the ids that `started` has named"
        found.add("session", "is set", allowed)
    if message.cache.salt:
        found.add("cache.salt", "is set", "not to be, with a session, which has its own")
    with _as_rpc_errors():
        return serving.sessions.use(caller.owner, message.session)


def num_held(session: Session) -> int:
    """The session's tokens whose KV blocks are pinned, which need not be computed."""
    return len(session.blocks) * BLOCK_SIZE


def _read_name(message: generation_pb2.CreateSessionRequest, found: Violations) -> str:
    if not message.HasField("name"):
        return uuid4().hex
    check_name("name", message.name, found)
    return message.name


def _read_salt(message: generation_pb2.CreateSessionRequest, parent: Session | None, found: Violations) -> str:
    if parent is None:
        check_salt("salt", message.salt, found)
        return message.salt
    if message.salt:
        found.add("salt", "is set", "not to be, with a parent, which has its own")
    return parent.salt


@contextmanager
def _as_rpc_errors() -> Iterator[None]:
    """Raise the sessions' errors as the errors of a call."""
    try:
        yield
    except UnknownSessionError as error:
        raise SessionNotFoundError(str(error)) from error
    except SessionExistsError as error:
        raise SessionTakenError(str(error)) from error
    except SessionQuotaError as error:
        raise SessionsFullError(str(error), of_caller=error.of_owner) from error
