"""Head: what is known of an answer before its first piece, and every event of it repeats."""

import hashlib
import secrets
import time
from dataclasses import dataclass

from outrider import Token

_SEED_BITS = 53  # what JavaScript's numbers hold


@dataclass(frozen=True, slots=True)
class Ticket:
    """An answer's name, its time in seconds since 1970, and its seed: what a repetition needs beside the request."""

    name: str
    created: int
    seed: int

    @classmethod
    def new(cls, seed: int | None) -> "Ticket":
        """One for an answer that nobody has heard of; without a seed one is drawn."""
        drawn = secrets.randbits(_SEED_BITS) if seed is None else seed
        return cls(secrets.token_hex(12), int(time.time()), drawn)


@dataclass(frozen=True, slots=True)
class Head:
    """What an API's objects begin with."""

    ticket: Ticket
    model: str
    fingerprint: str
    samples: int
    num_choices: int
    prompt_tokens: int
    """Of the first prompt."""
    prompt_records: tuple[tuple[Token, ...], ...] = ()
    """For each prompt those of its tokens, if asked for."""

    def check(self, body: bytes) -> str:
        """What only an answer to the same request under the same fingerprint has, as 12 hexadecimal digits."""
        return hashlib.blake2s(self.fingerprint.encode() + b"\n" + body, digest_size=6).hexdigest()
