"""Token rules of a checkpoint: tokens that must not be sampled, and tokens that are forced."""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeGuard

from services.engine.files.json_fields import JsonFields, shown
from services.engine.forced_tokens import ForcedIds
from services.engine.sampling_params import MAX_BAD_WORD_TOKENS, MAX_BAD_WORDS, MAX_SUPPRESSED_IDS

TokenRules = Mapping[str, tuple[int, ...] | tuple[tuple[int, ...], ...]]
"""The lists of SamplingParams that generation_config.json sets, by name."""

_IDS = {"suppress_tokens": "suppressed_ids", "begin_suppress_tokens": "begin_suppressed_ids"}
_WORDS = {"bad_words_ids": "bad_words"}
_FORCED = {"forced_bos_token_id": "second", "forced_eos_token_id": "last"}
RULE_FIELDS = (*_IDS, *_WORDS, *_FORCED)


def read_token_rules(fields: JsonFields, *, vocab_size: int, eos_token_ids: Collection[int]) -> TokenRules:
    """Read generation_config.json; raises CheckpointError naming a list that is too long or has an unknown token.

    A bad word of a single end-of-sequence token is ignored, as transformers' NoBadWordsLogitsProcessor does.
    """
    ids = {ours: _read_ids(fields, name, vocab_size) for name, ours in _IDS.items() if name in fields}
    words = {
        ours: tuple(word for word in _read_words(fields, name, vocab_size) if {*word} - {*eos_token_ids} or word[1:])
        for name, ours in _WORDS.items()
        if name in fields
    }
    rules: TokenRules = {**ids, **words}
    return {name: found for name, found in rules.items() if found}


def read_forced_ids(fields: JsonFields, *, vocab_size: int) -> ForcedIds:
    """Read generation_config.json; raises CheckpointError naming a field without a token or with an unknown one."""
    return ForcedIds(**{ours: _read_forced(fields, name, vocab_size) for name, ours in _FORCED.items()})


def _read_forced(fields: JsonFields, name: str, vocab_size: int) -> tuple[int, ...]:
    value = fields.raw(name)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not _are_ids(ids, vocab_size, most=MAX_SUPPRESSED_IDS):
        allowed = f"an id, or at most {MAX_SUPPRESSED_IDS}, from 0 to {vocab_size - 1}"
        raise fields.error(name, f"must hold {allowed}, is {shown(value)}")
    return tuple(ids)


def _read_ids(fields: JsonFields, name: str, vocab_size: int) -> tuple[int, ...]:
    value = fields.raw(name)
    if not _are_ids(value, vocab_size, most=MAX_SUPPRESSED_IDS):
        allowed = f"at most {MAX_SUPPRESSED_IDS} ids from 0 to {vocab_size - 1}"
        raise fields.error(name, f"must hold {allowed}, is {shown(value)}")
    return tuple(value)


def _read_words(fields: JsonFields, name: str, vocab_size: int) -> Iterator[tuple[int, ...]]:
    words = fields.raw(name)
    if not isinstance(words, list) or len(words) > MAX_BAD_WORDS:
        raise fields.error(name, f"must hold at most {MAX_BAD_WORDS} lists, is {shown(words)}")
    for word in words:
        if not word or not _are_ids(word, vocab_size, most=MAX_BAD_WORD_TOKENS):
            allowed = f"1 to {MAX_BAD_WORD_TOKENS} ids from 0 to {vocab_size - 1}"
            raise fields.error(name, f"must hold lists of {allowed}, has {shown(word)}")
        yield tuple(word)


def _are_ids(value: object, vocab_size: int, *, most: int) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) <= most
        and all(type(token_id) is int and 0 <= token_id < vocab_size for token_id in value)
    )
