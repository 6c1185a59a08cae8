"""What a request that goes on behind a session takes from it."""

from services.engine.decoder.native import BLOCK_SIZE
from services.engine.request import CachePolicy
from services.service.access.caller import Caller
from services.service.validation import Violations
from services.target.api.generation_request import GenerationRequest
from services.target.api.sessions.errors import told_by_rpc
from services.target.models.serving import Serving
from services.target.sessions.session import Session


def used_session(message: GenerationRequest, serving: Serving, caller: Caller, found: Violations) -> Session:
    """The session that a request names, whose time begins anew; raises SessionNotFoundError.

    What cannot go with a session is added to `found`.
    """
    if message.HasField("continue_from"):
        allowed = "not to be, with continue_from, whose prompt is all of the ids that `started` has named"
        found.add("session", "is set", allowed)
    if message.cache.salt:
        found.add("cache.salt", "is set", "not to be, with a session, which has its own")
    with told_by_rpc():
        return serving.sessions.use(caller.owner, message.session)


def num_held(session: Session) -> int:
    """Tokens that come before the prompt and need not be computed."""
    return len(session.blocks) * BLOCK_SIZE


def cache_of(session: Session, policy: CachePolicy) -> CachePolicy:
    """A request's policy, by which it finds what its session holds."""
    return CachePolicy(prefix=policy.prefix, salt=session.salt)
