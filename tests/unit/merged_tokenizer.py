"""Byte-level tokenizers with any merges, and strategies that draw them."""

import json
from collections.abc import Iterable

from hypothesis import strategies as st

from services.engine.text.token_bytes import _BYTE_OF
from services.engine.text.tokenizer import Tokenizer

ALPHABET = [b"a", b"b", b" ", b"\xc3", b"\xa9", b"\xff"]  # the two in the middle are one character; the last is none
END = "<end>"
_CHARACTER_OF = {byte: chr(character) for character, byte in _BYTE_OF.items()}


def merged_tokenizer(
    merges: Iterable[tuple[bytes, bytes]] = (),
    *,
    alphabet: Iterable[bytes] = ALPHABET,
    specials: Iterable[str] = (END,),
) -> Tokenizer:
    """A tokenizer of these bytes and of what the merges make of them; the special tokens come last."""
    merges = [*merges]
    tokens = [*dict.fromkeys([*alphabet, *(left + right for left, right in merges)])]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    description = {
        "added_tokens": [
            {"id": len(tokens) + index, "content": special, "special": True, **flags}
            for index, special in enumerate(specials)
        ],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {_written(token): token_id for token_id, token in enumerate(tokens)},
            "merges": [[_written(left), _written(right)] for left, right in merges],
        },
    }
    return Tokenizer(json.dumps(description))


@st.composite
def merges(draw: st.DrawFn) -> list[tuple[bytes, bytes]]:
    """Merges of the alphabet's bytes, and of what they make."""
    tokens, drawn = [*ALPHABET], list[tuple[bytes, bytes]]()
    for _ in range(draw(st.integers(0, 8))):
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if (merged := b"".join(pair)) not in tokens:
            tokens.append(merged)
            drawn.append(pair)
    return drawn


def _written(token: bytes) -> str:
    return "".join(_CHARACTER_OF[byte] for byte in token)
