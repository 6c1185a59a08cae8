"""Digests that name KV blocks by their contents: prefixes with the same tokens have the same digests."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from services.engine.cache.page_key import next_digest, scope_digest


def pinned_tokens(num_tokens: int, block_size: int) -> int:
    """Leading tokens whose blocks a session of `num_tokens` tokens holds. The last token is never one of them, since a
    request that continues the session may have to compute its logits.
    """
    return (num_tokens - 1) // block_size * block_size


def block_digests(tokens: Seq[int], scope: str, block_size: int) -> Iterator[bytes]:
    """For each block that a session of these tokens holds, a digest of the scope and of all tokens up to its end."""
    digest = scope_digest(scope)
    for start in range(0, pinned_tokens(len(tokens), block_size), block_size):
        digest = next_digest(digest, tokens[start : start + block_size])
        yield digest
