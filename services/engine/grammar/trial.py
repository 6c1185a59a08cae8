"""GrammarTrial: a grammar that is to be tried out before it is compiled, and what that may take."""

import hashlib
from typing import NamedTuple

from services.engine.grammar.source import GrammarSource

MAX_SECONDS = 2.0  # of the processor
MAX_WAIT = 20.0  # seconds on the clock: on a busy machine a trial may have to wait for its turn
MAX_MEMORY = 512 << 20  # bytes
MAX_HELD = 128 << 20  # bytes, that a compiled grammar holds
MAX_STACK = 1 << 20  # bytes, half of the least that a thread of a service has


class GrammarTrial(NamedTuple):
    """A grammar, and for how many texts it is to be compiled."""

    source: GrammarSource
    num_states: int
    looks_ahead: bool

    def digest(self) -> bytes:
        """What tells it from all others."""
        return hashlib.sha256(repr(self).encode()).digest()
