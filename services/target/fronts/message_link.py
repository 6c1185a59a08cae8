"""MessageLink: exchanges messages with another process, those of one turn of the event loop together."""

import asyncio
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec.msgpack import Decoder

from services.target.frames import read_frames, to_frame
from services.target.fronts.messages import Message, encoder

Arriving = TypeVar("Arriving", bound=Message)


class MessageLink(Generic[Arriving]):
    """Made and used on one event loop; call `open` first."""

    def __init__(
        self,
        end: socket.socket,
        decoder: Decoder[Arriving],
        on_message: Callable[[Arriving], None],
        on_end: Callable[[], None],
    ) -> None:
        """`on_end` is called when the other process has closed its end, at the latest when that process ends."""
        self._end, self._decoder, self._on_message, self._on_end = end, decoder, on_message, on_end
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self._transport: asyncio.Transport | None = None

    async def open(self) -> None:
        """Begin to read."""
        self._transport = await read_frames(self._end, self._take, self._on_end)

    def send(self, message: Message) -> None:
        """Send a message at the end of this turn; nothing happens once the other end is closed."""
        frame = to_frame(encoder.encode(message))
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent += frame

    def close(self) -> None:
        """Send the rest, and close this end."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def _flush(self) -> None:
        if self._unsent and self._transport is not None and not self._transport.is_closing():
            self._transport.write(bytes(self._unsent))
        self._unsent.clear()

    def _take(self, data: bytes) -> None:
        self._on_message(self._decoder.decode(data))
