"""Names of KV blocks that know nothing of where these lie: the same for all who begin with the same tokens."""

from array import array
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from hashlib import blake2b

_DIGEST_BYTES = 16


def pinned_tokens(num_tokens: int, block_size: int) -> int:
    """Leading tokens whose blocks a session of so many holds: its last token is no part of them, since whoever goes on
    behind it may have to compute that one for its logits.
    """
    return (num_tokens - 1) // block_size * block_size


def block_digests(tokens: Seq[int], scope: str, block_size: int) -> Iterator[bytes]:
    """Of each block that a session of these tokens holds a digest of all tokens up to its end, and of the scope."""
    digest = blake2b(scope.encode(), digest_size=_DIGEST_BYTES).digest()
    for start in range(0, pinned_tokens(len(tokens), block_size), block_size):
        ids = array("I", tokens[start : start + block_size])
        digest = blake2b(digest + ids.tobytes(), digest_size=_DIGEST_BYTES).digest()
        yield digest
