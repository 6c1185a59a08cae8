"""Content encodings: decompresses bodies as they arrive, in small steps."""

import asyncio
import zlib
from collections.abc import AsyncIterator

from services.gateway.generation.problem import Kind, Problem

HEADER = "Content-Encoding"
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}  # as zlib has them: for the format of gzip, and for its own
_AT_ONCE = 1 << 18  # bytes that are decompressed before others get their turn
_MOST_REPEATED = 64  # characters of a refused encoding in the message


async def decoded(parts: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Yield the bytes of an encoded body; raises Problem for another encoding and for bytes that are not encoded so.

    A few bytes may yield any number of them, so the reader must count.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        async for part in parts:
            yield part
        return
    if encoding not in _WINDOW_BITS:
        message = f"{HEADER}: is {encoding[:_MOST_REPEATED]!r}; allowed: gzip, deflate, identity"
        raise Problem(Kind.WRONG_TYPE, message, HEADER)
    try:
        async for part in _decompressed(parts, _WINDOW_BITS[encoding]):
            yield part
    except (zlib.error, EOFError):
        raise Problem(Kind.INVALID, f"the body is not encoded as {encoding}") from None


async def _decompressed(parts: AsyncIterator[bytes], window_bits: int) -> AsyncIterator[bytes]:
    """Yield decompressed bytes; raises zlib.error, and EOFError for a body that ends too early or too late."""
    decoder = zlib.decompressobj(window_bits)
    async for part in parts:
        rest = part
        while rest:
            yield decoder.decompress(rest, _AT_ONCE)
            rest = decoder.unconsumed_tail
            await asyncio.sleep(0)
        if decoder.unused_data:
            raise EOFError
    yield decoder.flush()
    if not decoder.eof:
        raise EOFError
