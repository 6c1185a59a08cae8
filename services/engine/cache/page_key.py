"""PageKey: the name of a full KV block that knows nothing of where it lies, the same for all who begin alike."""

from array import array
from collections.abc import Sequence as Seq
from hashlib import blake2b
from typing import NamedTuple

DIGEST_BYTES = 32


def scope_digest(scope: str) -> bytes:
    """What stands before the first block of all who may find each other's."""
    return blake2b(scope.encode(), digest_size=DIGEST_BYTES).digest()


def next_digest(before: bytes, token_ids: Seq[int]) -> bytes:
    """The digest of a block's tokens behind all that `before` is the digest of, and so of all tokens up to its end."""
    return blake2b(before + array("I", token_ids).tobytes(), digest_size=DIGEST_BYTES).digest()


class PageKey(NamedTuple):
    """A digest of the scope and of all tokens up to a block's end, and the tokens of the block itself."""

    digest: bytes
    token_ids: tuple[int, ...]

    @classmethod
    def behind(cls, before: bytes, token_ids: tuple[int, ...]) -> "PageKey":
        """The key of the block of these tokens behind what `before` is the digest of."""
        return cls(next_digest(before, token_ids), token_ids)
