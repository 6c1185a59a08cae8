"""PageKey: identifies the contents of a full KV block, independent of its place: equal for equal prefixes."""

from array import array
from collections.abc import Sequence as Seq
from hashlib import blake2b
from typing import NamedTuple

DIGEST_BYTES = 32
Prefix = int | str
"""What precedes a block: another block or, for the first block of a sequence, the cache scope."""
Key = tuple[Prefix, tuple[int, ...]]
"""What precedes a block in the KV cache, and the tokens of the block itself."""


def scope_digest(scope: str) -> bytes:
    """Return the digest that precedes the first block of a cache scope."""
    return blake2b(scope.encode(), digest_size=DIGEST_BYTES).digest()


def next_digest(before: bytes, token_ids: Seq[int]) -> bytes:
    """Return the digest of the prefix that ends with this block's tokens; `before` is that of the prefix before it."""
    return blake2b(before + array("I", token_ids).tobytes(), digest_size=DIGEST_BYTES).digest()


class PageKey(NamedTuple):
    """A digest of the scope and of all tokens up to a block's end, and the tokens of the block itself."""

    digest: bytes
    token_ids: tuple[int, ...]

    @classmethod
    def after(cls, before: bytes, token_ids: tuple[int, ...]) -> "PageKey":
        """Return the key of the block of these tokens after the prefix whose digest is `before`."""
        return cls(next_digest(before, token_ids), token_ids)
