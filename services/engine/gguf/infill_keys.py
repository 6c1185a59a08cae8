"""Infill keys: the ids of marks for filling in the middle that a GGUF file's metadata gives."""

from collections.abc import Mapping

from services.engine.gguf.vocabulary import PREFIX, Vocabulary

_KEYS = {  # the second ones are older
    "prefix": ("fim_pre_token_id", "prefix_token_id"),
    "suffix": ("fim_suf_token_id", "suffix_token_id"),
    "middle": ("fim_mid_token_id", "middle_token_id"),
    "file": ("fim_sep_token_id",),
    "repository": ("fim_rep_token_id",),
    "padding": ("fim_pad_token_id",),
}


def infill_ids(vocabulary: Vocabulary) -> Mapping[str, int]:
    """Return the ids of the marks that a file gives; raises CheckpointError for ids outside of its vocabulary."""
    found: dict[str, int] = {}
    for name, keys in _KEYS.items():
        for key in keys:
            token_id = vocabulary.metadata.index(f"{PREFIX}{key}", len(vocabulary.tokens))
            if token_id is not None:
                found.setdefault(name, token_id)
    return found
