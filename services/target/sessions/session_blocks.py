"""Names of KV blocks that know nothing of where these lie: the same for all who begin with the same tokens."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from services.engine.cache.page_key import next_digest, scope_digest


def pinned_tokens(num_tokens: int, block_size: int) -> int:
    """Leading tokens whose blocks a session of so many holds: its last token is no part of them, since whoever goes on
    behind it may have to compute that one for its logits.
    """
    return (num_tokens - 1) // block_size * block_size


def block_digests(tokens: Seq[int], scope: str, block_size: int) -> Iterator[bytes]:
    """Of each block that a session of these tokens holds a digest of all tokens up to its end, and of the scope."""
    digest = scope_digest(scope)
    for start in range(0, pinned_tokens(len(tokens), block_size), block_size):
        digest = next_digest(digest, tokens[start : start + block_size])
        yield digest
