"""Fingerprint: all that the bytes of an answer depend on beside the request."""

import hashlib
from dataclasses import astuple, dataclass
from functools import cached_property
from importlib.metadata import version

from services.engine.config import EngineConfig
from services.engine.decoder.native import BUILD_ID, NOISE_VERSION
from services.engine.loaded_model import LoadedModel

_LIBRARIES = ("jinja2", "llguidance", "tokenizers")  # that turn texts into tokens, and tell which tokens are allowed


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Two engines with the same fingerprint give the same bytes for the same request."""

    version: str  # of this package, for tokenization, stops and text
    build: str  # of the native module
    device: str
    weights_hash: str
    tokenizer: str  # hash of its description
    chat: str = ""  # hash of the chat template, its variables, and the syntax of answers
    libraries: str  # versions of those that tokenize texts, render templates and carry out grammars
    weight_format: str
    kv_type: str
    noise_version: int
    recommended: str  # sampling parameters of the checkpoint, the defaults of requests
    lora: str = ""  # name of an adapter, and hash of its files
    context_length: int  # at which a generation ends at the latest

    @cached_property
    def digest(self) -> str:
        """A hash of all parts, for messages."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:32]

    def __str__(self) -> str:
        return self.digest


def fingerprint_of(model: LoadedModel, config: EngineConfig) -> Fingerprint:
    """The fingerprint of a loaded model, apart from its conversations and adapters."""
    return Fingerprint(
        version=version("outrider"),
        build=BUILD_ID,
        device=model.device.name,
        weights_hash=model.weights_digest(),
        tokenizer=model.tokenizer.digest(),
        libraries=" ".join(f"{name} {version(name)}" for name in _LIBRARIES),
        weight_format=model.weights,
        kv_type=config.kv,
        noise_version=NOISE_VERSION,
        recommended=model.checkpoint.recommendations(),
        context_length=model.context_length,
    )
