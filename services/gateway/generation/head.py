"""Head: the properties of an answer that are known before its first piece, and that all its events repeat."""

import array
import hashlib
import secrets
import time
from dataclasses import dataclass

from outrider import Started, Token

_SEED_BITS = 53  # a JavaScript number holds so many


@dataclass(frozen=True, slots=True)
class Ticket:
    """An answer's name, its time in seconds since 1970, and its seed; with the request they repeat the answer."""

    name: str
    created: int
    seed: int

    @classmethod
    def new(cls, seed: int | None) -> "Ticket":
        """Return the ticket of a new answer; without a seed a random one is chosen."""
        drawn = secrets.randbits(_SEED_BITS) if seed is None else seed
        return cls(secrets.token_hex(12), int(time.time()), drawn)


@dataclass(frozen=True, slots=True)
class Head:
    """The properties of an answer that the objects of all APIs have."""

    ticket: Ticket
    prompts: tuple[Started, ...]
    """The start of the answer to each prompt."""
    samples: int
    prompt_records: tuple[tuple[Token, ...], ...] = ()
    """For each prompt the records of its tokens, if requested."""

    @property
    def model(self) -> str:
        """The model that answers."""
        return self.prompts[0].model

    @property
    def fingerprint(self) -> str:
        """The fingerprint under which the seed repeats the answer."""
        return self.prompts[0].fingerprint

    @property
    def num_choices(self) -> int:
        """The number of answers to all prompts."""
        return len(self.prompts) * self.samples

    def prompt_of(self, choice: int) -> Started:
        """Return the start of the answer to the prompt of a choice."""
        return self.prompts[choice // self.samples]

    def check(self, body: bytes) -> str:
        """Return 12 hexadecimal digits that identify the request's body, its prompts and the model's fingerprint."""
        digest = hashlib.blake2s(self.fingerprint.encode() + b"\n" + body, digest_size=6)
        for prompt in self.prompts:  # a chat template may render the same body otherwise on another day
            ids = prompt.prompt_token_ids
            digest.update(b"\n%d\n" % len(ids) + array.array("I", ids).tobytes())
        return digest.hexdigest()
