"""The bytes of each token id, read from the vocabulary and decoder of a tokenizer.json."""

import codecs
import re
from collections.abc import Callable, Mapping
from typing import Any

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import shown

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
MOST_TOKENS = 1 << 22  # larger than any existing vocabulary
_MOST_TOKEN_BYTES = 1 << 10  # the limit of the grammar library
_MOST_REPLACEMENT = 64  # characters
_MOST_BYTES = 1 << 28  # of all tokens together
_SUPPORTED = "allowed are ByteLevel, Metaspace, and a Sequence of ByteLevel, Replace, ByteFallback, Fuse and Strip"


def read_token_bytes(tokenizer: Mapping[str, Any], vocabulary: Mapping[str, int], where: str) -> tuple[bytes, ...]:
    """Return the table from id to bytes; an id without a token has no bytes.

    Added tokens of a byte-level vocabulary are literal text; those of a SentencePiece-like one contain its marks for
    spaces, such as Gemma's runs of spaces. The space that some decoders strip from the start of a text is kept, because
    generated text continues a prompt. Raises CheckpointError for an unsupported decoder, and for too many ids or bytes.
    """
    last, last_id = max(vocabulary.items(), key=lambda item: item[1], default=("", -1))
    if last_id >= MOST_TOKENS:
        raise CheckpointError(f"{where}: token {shown(last)} has id {last_id}; it must be from 0 to {MOST_TOKENS - 1}")
    convert = _converter(tokenizer.get("decoder"), where)
    added = {token["content"] for token in tokenizer.get("added_tokens") or []}
    literal = added if convert is _from_byte_level else set()
    table = [b""] * (last_id + 1)
    num_bytes = 0
    for token, token_id in vocabulary.items():
        table[token_id] = token.encode() if token in literal else convert(token)
        num_bytes += len(table[token_id])
        if len(table[token_id]) > _MOST_TOKEN_BYTES or num_bytes > _MOST_BYTES:
            limits = f"at most {_MOST_TOKEN_BYTES} for each token and {_MOST_BYTES} for all"
            raise CheckpointError(f"{where}: token {shown(token)} stands for too many bytes; allowed are {limits}")
    return tuple(table)


def _converter(decoder: object, where: str) -> Callable[[str], bytes]:
    match decoder:
        case {"type": "Sequence", "decoders": list(steps)}:
            pass
        case _:
            steps = [decoder]
    replacements: dict[str, str] = {}
    has_byte_tokens = False
    for step in steps:
        match step:
            case {"type": "ByteLevel"}:
                return _from_byte_level
            case {"type": "Metaspace", "replacement": str(mark)}:
                replacements[mark] = " "
            case {"type": "Replace", "pattern": {"String": str(mark)}, "content": str(content)} if (
                mark and len(content) <= _MOST_REPLACEMENT
            ):
                replacements[mark] = content
            case {"type": "ByteFallback"}:
                has_byte_tokens = True
            case {"type": "Fuse" | "Strip"}:
                pass
            case _:
                kind = step.get("type") if isinstance(step, dict) else step
                raise CheckpointError(f"{where}: decoder {shown(kind)} is not supported; {_SUPPORTED}")
    return lambda token: _from_pieces(token, replacements, has_byte_tokens)


def _from_pieces(token: str, replacements: Mapping[str, str], has_byte_tokens: bool) -> bytes:
    """Convert a SentencePiece token: text with marks for spaces, or a single byte written <0xNN>."""
    if has_byte_tokens and (match := _BYTE_TOKEN.fullmatch(token)):
        return bytes([int(match[1], 16)])
    for mark, content in replacements.items():
        if len(token) <= _MOST_TOKEN_BYTES:  # a longer token is refused later, and must not grow further
            token = token.replace(mark, content)
    return token.encode()


def _from_byte_level(token: str) -> bytes:
    """Convert a byte-level token, in which each character stands for one byte; any other token is literal."""
    try:
        data, _ = codecs.charmap_encode(token, "strict", _BYTE_OF)
        return data
    except UnicodeEncodeError:
        return token.encode()


def _byte_level_alphabet() -> dict[int, int]:
    """Return GPT-2's map: printable Latin-1 characters stand for themselves, all other bytes for those from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: byte for byte in printable} | {256 + i: byte for i, byte in enumerate(others)}


_BYTE_OF = _byte_level_alphabet()
