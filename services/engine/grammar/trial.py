"""GrammarTrial: a grammar to try before it is compiled, and the limits of a trial."""

import hashlib
from typing import NamedTuple

from services.engine.grammar.source import GrammarSource

MAX_SECONDS = 2.0  # of CPU time
MAX_WAIT = 20.0  # seconds of wall-clock time: on a busy machine a trial may have to wait for a core
MAX_MEMORY = 512 << 20  # bytes
MAX_HELD = 128 << 20  # bytes that a compiled grammar may hold
MAX_STACK = 1 << 20  # bytes, half of the smallest stack of a thread in a service


class GrammarTrial(NamedTuple):
    """A grammar, and the number of texts to compile it for."""

    source: GrammarSource
    num_states: int
    looks_ahead: bool

    def digest(self) -> bytes:
        """Return a digest that identifies the trial."""
        return hashlib.sha256(repr(self).encode()).digest()
