"""BoundedProtocol: limits the number of connections, the time for a request to arrive, and bytes outside of bodies."""

import asyncio

import httptools
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_GRACE_SECONDS = 1.0  # to answer that a body is late, before the connection is closed
_MOST_PENDING = 64 << 10  # bytes of a head, or after a body
_MOST_QUEUED = 16  # pipelined requests on one connection


class BoundedProtocol(HttpToolsProtocol):
    """A connection beyond the limit is closed at once, and so is one whose request does not arrive in time.

    uvicorn's parser buffers incomplete heads of any length, and any number of pipelined requests: those are limited
    here.
    """

    def __init__(self, *, most: int, seconds: float, **settings: object) -> None:
        """Allow `most` connections at once, and `seconds` for each head and each body; the settings are uvicorn's."""
        super().__init__(**settings)  # type: ignore[arg-type]
        self._most = most
        self._seconds = seconds
        self._pending = 0  # bytes since the last ones that were passed on
        self._is_in_body = False
        self._awaited: float | None = None  # seconds for the awaited part to arrive; None: nothing is awaited
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Serve a connection, or close it if there are too many."""
        is_one_too_many = len(self.connections) >= self._most
        super().connection_made(transport)
        if is_one_too_many:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Parse data that has arrived."""
        self._pending += len(data)
        super().data_received(data)
        if self._pending > _MOST_PENDING and not self.transport.is_closing():
            self.send_400_response(f"The request has more than {_MOST_PENDING} bytes outside of its body.")

    def on_headers_complete(self) -> None:
        """Check a head that has arrived; raises HttpParserError."""
        if len(self.pipeline) >= _MOST_QUEUED or not self._says_its_host():
            raise httptools.HttpParserError  # answered with status 400
        self._pending = 0
        self._is_in_body = True
        super().on_headers_complete()
        if self.cycle is not None and self.parser.get_http_version() == "1.0":
            self.cycle.__class__ = _CloseDelimitedCycle  # uvicorn has made it, and would answer in chunks
        self._watch()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has arrived completely."""
        self._pending = 0
        self._is_in_body = False
        super().on_message_complete()
        self._watch()

    def on_response_complete(self) -> None:
        """Note that a request is answered, after which another one may follow."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout of a closed connection."""
        self._await(None)
        super().connection_lost(exc)

    def _says_its_host(self) -> bool:
        """Return whether the head has exactly one `Host`, or none in HTTP/1.0 (RFC 9112, section 3.2)."""
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


class _CloseDelimitedCycle(RequestResponseCycle):
    """A body of unknown length ends with the connection: HTTP/1.0 has no chunks (RFC 9112, section 6.3)."""

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            if all(name.lower() != b"content-length" for name, _ in message.get("headers", ())):
                self.chunked_encoding = False
        elif message["type"] == "http.response.body" and not self.expected_content_length:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
