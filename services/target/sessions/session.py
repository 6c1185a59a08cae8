"""Session: a prompt prefix that a caller pins by a name, the KV blocks that it holds, and the errors of sessions."""

import math
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.cache.page_key import next_digest, scope_digest


@dataclass(slots=True, eq=False, kw_only=True)
class Session:
    """The prefix's tokens, and the sequence that owns their KV blocks; times are in seconds on the registry's clock."""

    name: str
    owner: str
    tokens: tuple[int, ...]
    salt: str
    blocks: tuple[bytes, ...]  # the digests of the blocks that it holds
    ttl: float
    ends_at: float = math.inf
    is_open: bool = False  # whether it is computed and may be used
    pinned: int | None = None  # number of the generation that computes the blocks, and owns them from then on


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


class UnknownSessionError(LookupError):
    """The caller has no session of that name: there was none, or it has ended."""


class SessionExistsError(ValueError):
    """The caller already has a session of that name."""


class SessionQuotaError(ValueError):
    """Sessions hold as many blocks as they may; `of_owner` is whether the limit is the caller's, not the server's."""

    def __init__(self, problem: str, *, of_owner: bool) -> None:
        super().__init__(problem)
        self.of_owner = of_owner
