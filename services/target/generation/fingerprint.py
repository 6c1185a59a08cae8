"""Fingerprint: all that the bytes of an answer depend on beside the request."""

import hashlib
from dataclasses import astuple, dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Two engines with the same fingerprint give the same bytes for the same request."""

    version: str  # of this package, for tokenization, stops and text
    build: str  # of the native module
    device: str
    weights_hash: str
    vocabulary: str  # hash of the table from ids to bytes
    grammars: str  # version of llguidance, which decides the tokens that a grammar allows
    weight_format: str
    kv_type: str
    noise_version: int
    recommended: str  # sampling parameters of the checkpoint, the defaults of requests
    lora: str = ""  # name of an adapter, and hash of its files
    context_length: int  # at which a generation ends at the latest

    @cached_property
    def digest(self) -> str:
        """A hash of all parts, for messages."""
        parts = "\n".join(str(part) for part in astuple(self))
        return hashlib.sha256(parts.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        return self.digest
