"""Tokenizer: converts text to token ids, and token ids to bytes."""

import functools
import hashlib
import itertools
import json
import os
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import tokenizers

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.model_file import MIB, read_model_text
from services.engine.gguf.gguf_file import GgufFile, is_gguf
from services.engine.gguf.infill_keys import infill_ids
from services.engine.gguf.tokenizer_json import describe_tokenizer
from services.engine.gguf.vocabulary import Vocabulary
from services.engine.text.infill_marks import InfillMarks, find_infill_marks, infill_marks_of
from services.engine.text.token_bytes import read_token_bytes

_MOST_BYTES = 128 * MIB  # four times the largest published one
_SAMPLE = "Hello, wörld: 1 + 1 = 2!\n"


class Tokenizer:
    """The vocabulary of one checkpoint; immutable, and safe to share between threads."""

    def __init__(self, description: str | Mapping[str, Any], where: str = "tokenizer.json") -> None:
        """Build from the text of a tokenizer.json, or from the fields of one with a byte-pair vocabulary of all tokens.

        Raises CheckpointError if it cannot be used.
        """
        try:
            if isinstance(description, str):
                self._encoder, fields = _build(description), json.loads(description)
                vocabulary = self._encoder.get_vocab(with_added_tokens=True)
            else:
                self._encoder, fields = _assemble_bpe(description), description
                vocabulary = fields["model"]["vocab"]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library raises bare Exception, or panics
            raise CheckpointError(f"{where}: is not a usable tokenizer: {_brief(error)}") from error
        self._where, self._given = where, description if isinstance(description, str) else None
        self._infill_ids: Mapping[str, int] = {}  # which the file gives itself
        self._bytes = read_token_bytes(fields, vocabulary, where)
        self._longest_token = max(map(len, self._bytes), default=0)
        added = self._encoder.get_added_tokens_decoder()
        self._added_ids = frozenset(added)
        self._special_ids = frozenset(token_id for token_id, token in added.items() if token.special)

    @classmethod
    def from_model(cls, model: str | os.PathLike[str]) -> "Tokenizer":
        """Read the tokenizer of a folder or a GGUF file, and test it; raises CheckpointError."""
        path = Path(model)
        return cls.from_gguf(path) if is_gguf(path) else cls.from_folder(path)

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> "Tokenizer":
        """Read a folder's tokenizer.json, and test it; raises CheckpointError."""
        path = Path(folder) / "tokenizer.json"
        tokenizer = cls(read_model_text(path, most_bytes=_MOST_BYTES), str(path))
        tokenizer._try_out()
        return tokenizer

    @classmethod
    def from_gguf(cls, path: Path) -> "Tokenizer":
        """Build the tokenizer that a GGUF file's metadata describes, and test it; raises CheckpointError."""
        vocabulary = Vocabulary(GgufFile(path).metadata)
        tokenizer = cls(describe_tokenizer(vocabulary), str(path))
        tokenizer._infill_ids = infill_ids(vocabulary)
        tokenizer._try_out()
        return tokenizer

    @property
    def vocab_size(self) -> int:
        """One more than the highest id; the model's vocabulary may be padded beyond it."""
        return len(self._bytes)

    @property
    def where(self) -> str:
        """The file that it was read from."""
        return self._where

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[str, str]]:
        """Pickle it as the text that it was built from."""
        return Tokenizer, (self.description, self._where)

    @functools.cached_property
    def description(self) -> str:
        """The text of a tokenizer.json, from which another process can build it again."""
        return self._encoder.to_str() if self._given is None else self._given

    @property
    def longest_token(self) -> int:
        """The most bytes of a single token."""
        return self._longest_token

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of control tokens, which are hidden in text unless requested."""
        return self._special_ids

    @functools.cached_property
    def infill_marks(self) -> InfillMarks | None:
        """The marks of a text with a gap; None for a vocabulary without them."""
        return find_infill_marks(self._encoder.token_to_id) or infill_marks_of(self._infill_ids)

    def encode(self, text: str, *, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Return the ids of a text.

        `add_special_tokens` adds the tokens that the checkpoint wants around a prompt, such as a begin token. With
        `parse_special`, as is usual, the name of a control token in the text becomes that token; without it, the name
        is encoded as plain characters, and so is that of an infill mark. The GIL is released meanwhile, except for some
        ten nanoseconds per token.
        """
        encoder = self._encoder if parse_special else self._literal_encoder
        # As a batch of one text: the library releases the GIL only for batches.
        (encoding,) = encoder.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        ids: list[int] = encoding.ids
        return ids

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of one token; none for an id of padding."""
        return self._bytes[token_id] if 0 <= token_id < len(self._bytes) else b""

    def token_text(self, token_id: int) -> str:
        """Return one token's bytes as text, with U+FFFD for incomplete characters."""
        return self.token_bytes(token_id).decode(errors="replace")

    def id_of(self, text: str) -> int | None:
        """Return the single token that a text is encoded as; None if it takes several."""
        ids = self.encode(text, add_special_tokens=False)
        return ids[0] if len(ids) == 1 and self.token_text(ids[0]) == text else None

    def ids_beginning_with(self, prefix: bytes) -> list[int]:
        """Return the ids, without control tokens, whose bytes begin with a prefix."""
        return [
            token_id
            for token_id, data in enumerate(self._bytes)
            if data.startswith(prefix) and token_id not in self._special_ids
        ]

    def is_added(self, token_id: int) -> bool:
        """Return whether the token was added to the vocabulary that texts are split into, or is only a gap in ids."""
        return token_id in self._added_ids or not self.token_bytes(token_id)

    def is_special(self, token_id: int) -> bool:
        """Return whether the id is that of a control token."""
        return token_id in self._special_ids

    def fingerprint(self) -> str:
        """Return a SHA-256 over the bytes of every id: equal for models that share their vocabulary."""
        digest = hashlib.sha256()
        for data in self._bytes:
            digest.update(len(data).to_bytes(4, "little") + data)
        return digest.hexdigest()

    def digest(self) -> str:
        """Return a SHA-256 over the whole description: how texts are normalised, split and merged, and all tokens."""
        return hashlib.sha256(self.description.encode()).hexdigest()

    def _try_out(self) -> None:
        try:
            last_id = max(self.encode(_SAMPLE), default=0)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # as above
            raise CheckpointError(f"{self._where}: cannot encode {_SAMPLE!r}: {_brief(error)}") from error
        if last_id >= self.vocab_size:
            allowed = f"ids from 0 to {self.vocab_size - 1}"
            raise CheckpointError(f"{self._where}: encodes {_SAMPLE!r} with id {last_id}; its vocabulary has {allowed}")

    @functools.cached_property
    def _literal_encoder(self) -> tokenizers.Tokenizer:
        encoder = tokenizers.Tokenizer(self._encoder.model)  # shared: it is large and slow to build
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
            setattr(encoder, part, getattr(self._encoder, part))
        marks = self.infill_marks.ends if self.infill_marks is not None else ()
        for token_id, token in sorted(self._encoder.get_added_tokens_decoder().items()):
            is_special = token.special or token_id in marks  # some checkpoints do not say that marks are special
            (encoder.add_special_tokens if is_special else encoder.add_tokens)([token])
        encoder.encode_special_tokens = True
        return encoder


def _brief(error: BaseException) -> str:
    return str(error)[:300]


def _build(description: str) -> tokenizers.Tokenizer:
    encoder = tokenizers.Tokenizer.from_str(description)
    encoder.no_truncation()
    encoder.no_padding()
    return encoder


def _assemble_bpe(fields: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Build the library's tokenizer of a byte-pair vocabulary from the fields of a tokenizer.json; raises its errors.

    Writing the fields as text for the library to parse would take three times as long.
    """
    empty = {"type": "BPE", "vocab": {}, "merges": []}
    encoder: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(
        json.dumps({**fields, "added_tokens": [], "model": empty})
    )
    model = fields["model"]
    flags = {name: model[name] for name in ("unk_token", "fuse_unk", "byte_fallback", "ignore_merges")}
    encoder.model = tokenizers.models.BPE(model["vocab"], model["merges"], **flags)
    for is_special, tokens in itertools.groupby(fields["added_tokens"], itemgetter("special")):
        (encoder.add_special_tokens if is_special else encoder.add_tokens)([*map(_added_token, tokens)])
    return encoder


def _added_token(fields: Mapping[str, Any]) -> tokenizers.AddedToken:
    flags = {name: fields[name] for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
    return tokenizers.AddedToken(fields["content"], **flags)
