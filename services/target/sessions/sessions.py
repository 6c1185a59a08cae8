"""Sessions: the sessions of one model, by their owners and names, until they are deleted or expire."""

import asyncio
import time
from collections.abc import Callable

from services.target.sessions.session import Session, SessionExistsError, UnknownSessionError, block_digests
from services.target.sessions.session_quota import SessionLimits, SessionQuota

_SWEEP_SECONDS = 1.0  # between two checks for expired sessions
Holder = Callable[[int], None]


class Sessions:
    """For one event loop. A session is begun, computed by the call that began it, and then opened or dropped."""

    def __init__(
        self,
        limits: SessionLimits,
        *,
        block_size: int,
        hold: Holder,
        let_go: Holder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hold` keeps the blocks that a generation pins findable, `let_go` releases them; `clock` is in seconds."""
        self.quota = SessionQuota(limits)
        self._block_size = block_size
        self._hold, self._let_go, self._clock = hold, let_go, clock
        self._sessions: dict[tuple[str, str], Session] = {}

    @property
    def num_open(self) -> int:
        """The number of open sessions."""
        return sum(session.is_open for session in self._sessions.values())

    def begin(self, owner: str, name: str, tokens: tuple[int, ...], *, salt: str, ttl: float) -> Session:
        """Reserve a name and the blocks for the tokens; raises SessionExistsError and SessionQuotaError."""
        self.expire()
        if (owner, name) in self._sessions:
            raise SessionExistsError(f"there is a session {name!r} already")
        blocks = tuple(block_digests(tokens, salt, self._block_size))
        self.quota.take(owner, blocks)
        session = Session(name=name, owner=owner, tokens=tokens, salt=salt, blocks=blocks, ttl=ttl)
        self._sessions[owner, name] = session
        return session

    def open(self, session: Session) -> None:
        """Open a session that is computed for use; its time to live begins."""
        session.is_open = True
        self._renew(session)

    def find(self, owner: str, name: str) -> Session:
        """The open session of that name, without renewing its time to live; raises UnknownSessionError."""
        self.expire()
        session = self._sessions.get((owner, name))
        if session is None or not session.is_open:
            raise UnknownSessionError(f"there is no session {name[:64]!r}: it was not made here, or has ended")
        return session

    def use(self, owner: str, name: str) -> Session:
        """The open session of that name, whose time to live starts again; raises UnknownSessionError."""
        session = self.find(owner, name)
        self._renew(session)
        if session.pinned is not None:
            self._hold(session.pinned)
        return session

    def of(self, owner: str) -> list[Session]:
        """An owner's open sessions, the oldest first."""
        self.expire()
        return [session for session in self._sessions.values() if session.is_open and session.owner == owner]

    def seconds_left(self, session: Session) -> float:
        """Seconds until the session expires, unless it is used before."""
        return max(0.0, session.ends_at - self._clock())

    def drop(self, session: Session) -> None:
        """Forget a session, whether it is computed or not, and release its blocks."""
        del self._sessions[session.owner, session.name]
        self.quota.give_back(session.owner, session.blocks)
        if session.pinned is not None:
            self._let_go(session.pinned)

    def expire(self) -> None:
        """Drop the expired sessions."""
        now = self._clock()
        for session in [session for session in self._sessions.values() if session.ends_at <= now]:
            self.drop(session)

    async def sweep(self) -> None:
        """Drop each session soon after it expires, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self.expire()

    def _renew(self, session: Session) -> None:
        session.ends_at = self._clock() + session.ttl
