"""CloseDelimitedCycle: answers HTTP/1.0 requests."""

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class CloseDelimitedCycle(RequestResponseCycle):
    """A body of unknown length ends with the connection: HTTP/1.0 has no chunks (RFC 9112, section 6.3)."""

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            if all(name.lower() != b"content-length" for name, _ in message.get("headers", ())):
                self.chunked_encoding = False
        elif message["type"] == "http.response.body" and not self.expected_content_length:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
