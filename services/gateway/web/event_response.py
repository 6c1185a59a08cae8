"""EventResponse: an answer as server-sent events."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from services.gateway.generation.encoded_list import encode
from services.gateway.web.presence import unless_left

_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}  # the second is for nginx


class EventResponse(StreamingResponse):
    """Whatever way it ends, and if nobody ever reads it, what it holds is released."""

    def __init__(self, events: AsyncIterator[bytes], held: AsyncExitStack) -> None:
        super().__init__(events, headers=_HEADERS, media_type="text/event-stream")
        self._held = held

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with suppress(ClientDisconnect):
            async with self._held, unless_left(receive):
                await self.stream_response(send)


def encode_event(data: dict[str, Any], *, name: str | None = None, event_id: str | None = None) -> bytes:
    """An event on the wire; JSON has no line breaks of its own, and some clients take U+2028 for one."""
    first = f"event: {name}\n" if name else ""
    identity = f"id: {event_id}\n" if event_id else ""
    return b"".join((f"{first}{identity}data: ".encode(), encode(data, is_ascii=True), b"\n\n"))
