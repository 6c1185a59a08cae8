"""EventResponse: sends an answer as server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from services.gateway.generation.encoded_list import encode
from services.gateway.web.presence import unless_left

_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}  # the second stops nginx from buffering


class EventResponse(StreamingResponse):
    """Releases `held` when it ends in any way, also if the client disconnects (cancellation)."""

    def __init__(self, events: AsyncIterator[bytes], held: AsyncExitStack, *, ping: bytes, ping_seconds: float) -> None:
        """`ping` is sent after each silence of `ping_seconds`: proxies cut connections that are silent for long."""
        super().__init__(events, headers=_HEADERS, media_type="text/event-stream")
        self._held = held
        self._ping: Message = {"type": "http.response.body", "body": ping, "more_body": True}
        self._ping_seconds = ping_seconds

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send the headers and the events, until the client disconnects."""
        loop = asyncio.get_running_loop()
        last, is_sending = loop.time(), False

        async def send_on(message: Message) -> None:
            nonlocal last, is_sending
            is_sending = True
            await send(message)
            last, is_sending = loop.time(), False

        async def fill_silence() -> None:
            while True:
                rest = last + self._ping_seconds - loop.time()
                if rest > 0 or is_sending:
                    await asyncio.sleep(rest if rest > 0 else self._ping_seconds)
                else:
                    await send_on(self._ping)

        with suppress(ClientDisconnect):
            async with self._held, unless_left(receive):
                pings = asyncio.create_task(fill_silence())
                try:
                    await self.stream_response(send_on)
                finally:
                    pings.cancel()


def encode_event(data: dict[str, Any], *, name: str | None = None, event_id: str | None = None) -> bytes:
    """Return the bytes of an event, with ASCII JSON: some clients take U+2028 as a line break."""
    first = f"event: {name}\n" if name else ""
    identity = f"id: {event_id}\n" if event_id else ""
    return b"".join((f"{first}{identity}data: ".encode(), encode(data, is_ascii=True), b"\n\n"))
