"""Mutated frames: connections of HTTP/2 that begin as a call of gRPC does, with something wrong in them."""

import asyncio
import random
import struct
from contextlib import suppress

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_KINDS = range(12)
_LONGEST_FRAME = 1 << 14
_SECONDS = 0.2  # that an answer is waited for


def call_frames(path: str, message: bytes, metadata: str = "") -> list[bytes]:
    """One call, frame by frame, as a client would make it; surrogates in texts are bytes that are not UTF-8."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
        "metadata": metadata,
    }
    headers = b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields.items())
    body = struct.pack(">BI", 0, len(message)) + message
    return [_frame(_SETTINGS, 0, 0, b""), _frame(_HEADERS, 4, 1, headers), _frame(_DATA, 1, 1, body)]


def mutated(frames: list[bytes], rng: random.Random) -> bytes:
    """The bytes of a connection with one to four things wrong with it."""
    frames = [*frames]
    for _ in range(rng.randrange(1, 5)):
        index = rng.randrange(len(frames))
        match rng.randrange(6):
            case 0:
                frames[index] = _flip(frames[index], rng)
            case 1:
                frames[index] = frames[index][: rng.randrange(len(frames[index]) + 1)]
            case 2:
                frames.insert(index, rng.choice(frames))
            case 3:
                content = rng.randbytes(rng.choice((0, 1, 4, 5, 8, 64, 1000)))
                frames.insert(
                    index, _frame(rng.choice(_KINDS), rng.getrandbits(8), rng.choice((0, 1, 2, 3, 2**31)), content)
                )
            case 4:
                frames[index] = (
                    struct.pack(">I", rng.choice((0, _LONGEST_FRAME + 1, 2**24 - 1)))[1:] + frames[index][3:]
                )
            case 5:
                rng.shuffle(frames)
    start = PREFACE if rng.random() < 0.95 else _flip(PREFACE, rng)
    return start + b"".join(frames)


async def send(address: str, connection: bytes) -> None:
    """Send it on a connection of its own, and read for a moment; the server may answer it in any way."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with suppress(OSError, TimeoutError):
        writer.write(connection)
        await writer.drain()
        async with asyncio.timeout(_SECONDS):
            while await reader.read(1 << 16):
                pass
    writer.transport.abort()


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream & 0xFFFFFFFF) + content


def _text(text: str) -> bytes:
    content = text.encode(errors="surrogateescape")
    assert len(content) < 127
    return bytes([len(content)]) + content
