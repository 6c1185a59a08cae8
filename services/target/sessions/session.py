"""Session: a prompt prefix that a caller pins by a name."""

import math
from dataclasses import dataclass

from services.target.sequence.sequence import Sequence


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
    pinned: Sequence | None = None  # computes the blocks, and owns them from then on
