"""BoundedProtocol: connections within bounds of number, and of time until a request has arrived."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_GRACE_SECONDS = 1.0  # for the answer to a body that is late, before the connection is cut


class BoundedProtocol(H11Protocol):
    """A connection beyond the bound is closed at once, and one whose request's head or body does not arrive is cut."""

    def __init__(self, *, most: int, seconds: float, **settings: object) -> None:
        """`most` connections at once, `seconds` for each head and each body; the settings are uvicorn's."""
        super().__init__(**settings)  # type: ignore[arg-type]
        self._most = most
        self._seconds = seconds
        self._awaited: type[h11.IDLE] | type[h11.SEND_BODY] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Serve it, or not."""
        is_one_too_many = len(self.connections) >= self._most
        super().connection_made(transport)
        if is_one_too_many:
            transport.abort()
        else:
            self._watch()

    def handle_events(self) -> None:
        """Take what has arrived."""
        super().handle_events()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._await(None)
        super().connection_lost(exc)

    def _watch(self) -> None:
        state = self.conn.their_state
        awaited = state if state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing() else None
        if awaited is not self._awaited:
            self._await(awaited)

    def _await(self, awaited: type[h11.IDLE] | type[h11.SEND_BODY] | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._awaited = awaited
        seconds = self._seconds + (_GRACE_SECONDS if awaited is h11.SEND_BODY else 0)
        self._timer = None if awaited is None else self.loop.call_later(seconds, self.transport.abort)
