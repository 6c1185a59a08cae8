"""Session: the beginning of prompts that a caller holds by a name."""

import math
from dataclasses import dataclass

from services.target.sequence.sequence import Sequence


@dataclass(slots=True, eq=False, kw_only=True)
class Session:
    """Its tokens, and what holds their keys and values; times are in seconds on its registry's clock."""

    name: str
    owner: str
    tokens: tuple[int, ...]
    salt: str
    blocks: tuple[bytes, ...]  # that it holds, by their digests
    ttl: float
    ends_at: float = math.inf
    is_open: bool = False  # whether it is computed, and may be used
    pinned: Sequence | None = None  # what computes the blocks, and owns them from then on
