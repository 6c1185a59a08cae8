"""assemble_bpe: builds the library's tokenizer of a byte-pair vocabulary from the fields of a tokenizer.json.

Writing the fields as text for the library to parse would take three times as long.
"""

import itertools
import json
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from tokenizers import AddedToken, Tokenizer, models


def assemble_bpe(fields: Mapping[str, Any]) -> Tokenizer:
    """Build the tokenizer that the library would read from the fields' text; raises the library's errors."""
    empty = {"type": "BPE", "vocab": {}, "merges": []}
    encoder: Tokenizer = Tokenizer.from_str(json.dumps({**fields, "added_tokens": [], "model": empty}))
    model = fields["model"]
    flags = {name: model[name] for name in ("unk_token", "fuse_unk", "byte_fallback", "ignore_merges")}
    encoder.model = models.BPE(model["vocab"], model["merges"], **flags)
    for is_special, tokens in itertools.groupby(fields["added_tokens"], itemgetter("special")):
        (encoder.add_special_tokens if is_special else encoder.add_tokens)([*map(_added_token, tokens)])
    return encoder


def _added_token(fields: Mapping[str, Any]) -> AddedToken:
    flags = {name: fields[name] for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
    return AddedToken(fields["content"], **flags)
