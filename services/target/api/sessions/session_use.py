"""A request's use of the session that it continues."""

from services.engine.decoder.native import BLOCK_SIZE
from services.engine.request import CachePolicy
from services.service.access.caller import Caller
from services.service.validation import Violations
from services.target.api.generation_request import GenerationRequest
from services.target.api.sessions.errors import as_rpc_errors
from services.target.models.serving import Serving
from services.target.sessions.session import Session


def used_session(message: GenerationRequest, serving: Serving, caller: Caller, found: Violations) -> Session:
    """The session that a request names, whose time to live starts again; raises SessionNotFoundError.

    Fields that do not go with a session are added to `found`.
    """
    if message.HasField("continue_from"):
        allowed = "not to be, with continue_from, whose prompt is all of the ids that `started` has named"
        found.add("session", "is set", allowed)
    if message.cache.salt:
        found.add("cache.salt", "is set", "not to be, with a session, which has its own")
    with as_rpc_errors():
        return serving.sessions.use(caller.owner, message.session)


def num_held(session: Session) -> int:
    """The session's tokens whose KV blocks are pinned, which need not be computed."""
    return len(session.blocks) * BLOCK_SIZE


def cache_of(session: Session, policy: CachePolicy) -> CachePolicy:
    """A request's cache policy, with the session's salt, so that it finds the session's blocks."""
    return CachePolicy(prefix=policy.prefix, salt=session.salt)
