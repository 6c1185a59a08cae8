"""BoundedProtocol: connections within bounds of number, of time until a request has arrived, and of what is no body."""

import asyncio

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_GRACE_SECONDS = 1.0  # for the answer to a body that is late, before the connection is cut
_MOST_PENDING = 64 << 10  # bytes of a head, or of what follows a body
_MOST_QUEUED = 16  # requests that come before those before them are answered


class BoundedProtocol(HttpToolsProtocol):
    """A connection beyond the bound is closed at once, and one whose request's head or body does not arrive is cut.

    uvicorn's parser keeps what it is given until it is whole, however long that gets, and requests until it is their
    turn, however many: what is too much is refused here.
    """

    def __init__(self, *, most: int, seconds: float, **settings: object) -> None:
        """`most` connections at once, `seconds` for each head and each body; the settings are uvicorn's."""
        super().__init__(**settings)  # type: ignore[arg-type]
        self._most = most
        self._seconds = seconds
        self._pending = 0  # bytes since the last that were handed on
        self._is_in_body = False
        self._awaited: float | None = None  # seconds for what is to arrive; None where that is nothing
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Serve it, or not."""
        is_one_too_many = len(self.connections) >= self._most
        super().connection_made(transport)
        if is_one_too_many:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        self._pending += len(data)
        super().data_received(data)
        if self._pending > _MOST_PENDING and not self.transport.is_closing():
            self.send_400_response(f"The request has more than {_MOST_PENDING} bytes that are no body.")

    def on_headers_complete(self) -> None:
        """The head is here."""
        if len(self.pipeline) >= _MOST_QUEUED or not self._says_its_host():
            raise httptools.HttpParserError  # which is answered with 400
        self._pending = 0
        self._is_in_body = True
        super().on_headers_complete()
        self._watch()

    def on_body(self, body: bytes) -> None:
        """A part of the body is here."""
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of the request is here."""
        self._pending = 0
        self._is_in_body = False
        super().on_message_complete()
        self._watch()

    def on_response_complete(self) -> None:
        """It is answered, and another may follow."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._await(None)
        super().connection_lost(exc)

    def _says_its_host(self) -> bool:
        """Whether the head has one `Host`, which HTTP/1.0 may leave out (RFC 9112, section 3.2)."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        return hosts == 1 or (hosts == 0 and self.parser.get_http_version() == "1.0")

    def _watch(self) -> None:
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing():
            awaited = None
        elif self._is_in_body:
            awaited = self._seconds + _GRACE_SECONDS
        else:
            awaited = None if is_answering else self._seconds
        if awaited != self._awaited:
            self._await(awaited)

    def _await(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._awaited = seconds
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)
