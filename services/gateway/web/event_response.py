"""EventResponse: sends an answer as server-sent events."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from services.gateway.generation.encoded_list import encode
from services.gateway.web.presence import unless_left

_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}  # the second stops nginx from buffering


class EventResponse(StreamingResponse):
    """Releases `held` when it ends in any way, also if the client disconnects (cancellation)."""

    def __init__(self, events: AsyncIterator[bytes], held: AsyncExitStack) -> None:
        super().__init__(events, headers=_HEADERS, media_type="text/event-stream")
        self._held = held

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send the events, until the client disconnects."""
        with suppress(ClientDisconnect):
            async with self._held, unless_left(receive):
                await self.stream_response(send)


def encode_event(data: dict[str, Any], *, name: str | None = None, event_id: str | None = None) -> bytes:
    """Return the bytes of an event, with ASCII JSON: some clients take U+2028 as a line break."""
    first = f"event: {name}\n" if name else ""
    identity = f"id: {event_id}\n" if event_id else ""
    return b"".join((f"{first}{identity}data: ".encode(), encode(data, is_ascii=True), b"\n\n"))
