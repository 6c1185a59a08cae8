"""Fingerprint: what the bytes of an answer depend on beside the request."""

import hashlib
from dataclasses import astuple, dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Two engines with the same fingerprint give the same bytes for the same request."""

    version: str  # of this package: tokenizing, stops and text
    build: str  # of the native module
    device: str
    weights_hash: str
    vocabulary: str  # hash of the table from ids to bytes
    grammars: str  # version of what says which tokens a grammar allows
    weight_format: str
    kv_type: str
    noise_version: int
    recommended: str  # by the checkpoint, and taken where a request says nothing
    lora: str = ""  # name of an adapter, and hash of its files
    context_length: int  # where a generation without another end does end

    @cached_property
    def digest(self) -> str:
        """What stands for it in messages."""
        parts = "\n".join(str(part) for part in astuple(self))
        return hashlib.sha256(parts.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        return self.digest
