"""Creating a session: it is read from a message, begun, and computed."""

from contextlib import aclosing
from dataclasses import replace
from uuid import uuid4

from outrider.v1 import generation_pb2
from services.draft_protocol.caching import check_salt
from services.engine.decoder.native import BLOCK_SIZE
from services.engine.range import Range
from services.engine.request import CachePolicy, OutputOptions, Request
from services.service.validation import Violations
from services.target.api.call import Call
from services.target.api.prompts import read_prompt
from services.target.api.requests import check_name, read_request_id, read_share
from services.target.api.sessions.errors import as_rpc_errors
from services.target.api.texts.computed import computed, undrawn
from services.target.sessions.session import Session
from services.target.sessions.session_blocks import pinned_tokens

_DEFAULT_TTL = 600.0  # seconds
_TTL = Range(minimum=1, maximum=24 * 3600)


async def begin_session(message: generation_pb2.CreateSessionRequest, call: Call) -> tuple[Session, Request]:
    """A session, which must later be opened or dropped, and the request that computes it.

    Raises InvalidRequestError, and the errors of `as_rpc_errors`.
    """
    found, caller, sessions = Violations(), call.caller, call.serving.sessions
    with as_rpc_errors():
        parent = sessions.use(caller.owner, message.parent) if message.HasField("parent") else None
    if message.prompt.heal:
        found.add("prompt.heal", "is true", "false, or not set")
    ttl = message.ttl_seconds if message.HasField("ttl_seconds") else _DEFAULT_TTL
    found.check_number("ttl_seconds", ttl, _TTL)
    name, salt = _read_name(message, found), _read_salt(message, parent, found)
    request_id, share = read_request_id(message, found), read_share(message, caller, found)
    tokens = await read_prompt(message.prompt, call.model, found, session_tokens=parent.tokens if parent else ())
    found.raise_if_any()
    with as_rpc_errors():
        session = sessions.begin(caller.owner, name, tokens, salt=salt, ttl=ttl)
    request = undrawn(
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
            (session.pinned,) = await call.submit(call.serving.engine, [request])
            async with aclosing(computed([session.pinned], call.serving.statistics.observe)) as events:
                async for _ in events:
                    pass
    except BaseException:
        sessions.drop(session)
        raise
    sessions.open(session)


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
