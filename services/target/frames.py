"""Frames: what two processes of one service send each other, each message after its length in 8 bytes."""

import asyncio
import socket
import struct
from collections.abc import Callable

_LENGTH = struct.Struct("<Q")


def to_frame(message: bytes) -> bytes:
    """Return the frame of a message."""
    return _LENGTH.pack(len(message)) + message


class FrameReader(asyncio.Protocol):
    """Calls `on_frame` with each message that arrives, and `on_end` once no more can."""

    def __init__(self, on_frame: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_frame, self._on_end = on_frame, on_end
        self._buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket."""
        buffer = self._buffer
        buffer += data
        begin = 0
        while (start := begin + _LENGTH.size) <= len(buffer):
            (size,) = _LENGTH.unpack_from(buffer, begin)
            if start + size > len(buffer):
                break
            self._on_frame(bytes(memoryview(buffer)[start : start + size]))
            begin = start + size
        del buffer[:begin]

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio gives it
        """Take note of the end."""
        self._on_end()


async def read_frames(
    end: socket.socket, on_frame: Callable[[bytes], None], on_end: Callable[[], None]
) -> asyncio.Transport:
    """Begin to read a socket on the running event loop; returns what writes to it."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: FrameReader(on_frame, on_end), sock=end)
    return transport
