"""request_digest: the identity of everything in a request that the bytes of its answer depend on."""

import hashlib
import json
from array import array
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

from services.engine.request import Request

_OTHERS = {"time_limit", "seed", "tokenizer", "vocab_size"}  # the last two are in the fingerprint


def request_digest(request: Request) -> str:
    """Return the SHA-256 hash of it, except for the seed, in hexadecimal digits.

    A time limit, which may end an answer anywhere, does not count. Comparable between engines of one fingerprint only.
    """
    parts = (
        request.prompt,
        request.healing,
        request.sampling,
        request.stops,
        None if request.grammar is None else request.grammar.source,
        request.thinking,
        request.forced,
        request.guidance,
        request.output.show_special_tokens,
        None if request.lora is None else str(request.lora),
    )
    return hashlib.sha256(json.dumps(_plain(parts)).encode()).hexdigest()


def _plain(value: object) -> object:
    """Return it as JSON has it, the same for equal values."""
    match value:
        case None | bool() | int() | str():
            return value
        case float() | bytes():
            return value.hex()
        case Enum():
            return value.name
        case tuple():
            are_ids = {*map(type, value)} == {int}  # which may be many
            return hashlib.sha256(array("q", value)).hexdigest() if are_ids else [*map(_plain, value)]
        case frozenset() | Mapping():
            return sorted(map(_plain, value.items() if isinstance(value, Mapping) else value), key=repr)
    if not is_dataclass(value):
        raise TypeError(f"{value!r} has no digest")
    found = ((field, getattr(value, field.name)) for field in fields(value) if field.name not in _OTHERS)
    return [[field.name, _plain(each)] for field, each in found if each is not field.default and each != field.default]
