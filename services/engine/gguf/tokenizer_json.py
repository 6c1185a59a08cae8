"""tokenizer_json: translates the tokenizer of a GGUF file to an equivalent tokenizer.json."""

import logging
from collections.abc import Iterator
from typing import Any

from services.engine.files.json_fields import shown
from services.engine.gguf.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from services.engine.gguf.vocabulary import PREFIX, TokenType, Vocabulary

logger = logging.getLogger(__name__)

_MARK = "▁"  # SentencePiece's mark for a space
_MOST_SPLITS = 1 << 23  # of tokens into two; three times as many as in the largest vocabulary
_ADDED = {TokenType.CONTROL: True, TokenType.UNKNOWN: True, TokenType.USER_DEFINED: False}  # whether it is special
_BEFORE_SPACES = {"<unk>", "<s>", "<|endoftext|>"}  # Phi-3's tokens that keep the spaces after them
_MERGED = (TokenType.NORMAL, TokenType.USER_DEFINED)
_Description = dict[str, Any]
_Pair = tuple[str, str]


def describe_tokenizer(vocabulary: Vocabulary) -> _Description:
    """Return the fields of a tokenizer.json; raises CheckpointError naming the key at fault."""
    match vocabulary.model:
        case "gpt2":
            description = _describe_bpe(vocabulary)
        case "llama":
            description = _describe_spm(vocabulary, _merges_by_score(vocabulary))
        case "gemma4":
            description = _describe_spm(vocabulary, _stored_merges(vocabulary), is_gemma4=True)
        case model:
            problem = f"{shown(model)} is not supported; allowed are gpt2, llama and gemma4"
            raise vocabulary.metadata.error(f"{PREFIX}model", problem)
    common = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [*_added_tokens(vocabulary)]}
    return common | description


def _describe_bpe(vocabulary: Vocabulary) -> _Description:
    """Describe byte-level BPE: pairs are merged within the words of a pre-tokenizer."""
    pre = _pre_tokenizer(vocabulary)
    return {
        "normalizer": None,
        "pre_tokenizer": pre.describe(),
        "post_processor": _post_processor(vocabulary, adds_begin=pre.adds_begin),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": _model(vocabulary, _stored_merges(vocabulary)) | {"ignore_merges": pre.ignores_merges},
    }


def _describe_spm(vocabulary: Vocabulary, merges: list[_Pair], *, is_gemma4: bool = False) -> _Description:
    """Describe SentencePiece's BPE: pairs are merged in their order, and unknown characters become bytes."""
    begins_with_space = vocabulary.metadata.flag(f"{PREFIX}add_space_prefix", not is_gemma4)
    marks = [{"type": "Prepend", "prepend": _MARK}] if begins_with_space else []
    to_marks = {"type": "Replace", "pattern": {"String": " "}, "content": _MARK}
    to_spaces = {"type": "Replace", "pattern": {"String": _MARK}, "content": " "}
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if begins_with_space else []
    unknown = vocabulary.task_id("unk_token")
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*marks, to_marks]},
        "pre_tokenizer": None,
        "post_processor": _post_processor(vocabulary, adds_begin=True, must_begin=is_gemma4),
        "decoder": {"type": "Sequence", "decoders": [to_spaces, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        "model": _model(vocabulary, merges)
        | {
            "unk_token": None if unknown is None else vocabulary.tokens[unknown],
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }


def _pre_tokenizer(vocabulary: Vocabulary) -> PreTokenizer:
    name = vocabulary.metadata.text(key := f"{PREFIX}pre")
    if name is None:
        where = vocabulary.metadata.path
        logger.warning("%s: key %r: is missing; the model may see other tokens than in training", where, key)
    if (pre := PRE_TOKENIZERS.get("default" if name is None else name)) is None:
        allowed = ", ".join(PRE_TOKENIZERS)
        raise vocabulary.metadata.error(key, f"{shown(name)} is not supported; allowed are {allowed}")
    return pre


def _model(vocabulary: Vocabulary, merges: list[_Pair]) -> _Description:
    unused = int(TokenType.UNUSED)  # padding of the embedding, which no text is encoded as
    tokens = zip(vocabulary.tokens, range(len(vocabulary.tokens)), vocabulary.types, strict=True)
    used = [(token, token_id) for token, token_id, kind in tokens if kind != unused]
    if len(ids := dict(used)) != len(used):
        token, token_id = next(each for each in used if ids[each[0]] != each[1])
        problem = f"{shown(token)} occurs twice, as {token_id} and {ids[token]}"
        raise vocabulary.metadata.error(f"{PREFIX}tokens", problem)
    plain = {"dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    flags = {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {"type": "BPE", **plain, **flags, "vocab": ids, "merges": merges}


def _added_tokens(vocabulary: Vocabulary) -> Iterator[_Description]:
    """Yield the tokens that are matched in a text before it is split into words."""
    name = (vocabulary.metadata.text("general.name") or "").lower()
    keeps_spaces = "phi-3" not in name and "phi3" not in name  # there is no key for it; llama.cpp looks at the name too
    for token_id, kind in enumerate(vocabulary.types):
        if kind in _ADDED and (token := vocabulary.tokens[token_id]):
            flags = {"single_word": False, "lstrip": False, "normalized": False}
            rstrip = not (keeps_spaces or token in _BEFORE_SPACES)
            yield {"id": token_id, "content": token, **flags, "rstrip": rstrip, "special": _ADDED[TokenType(kind)]}


def _post_processor(vocabulary: Vocabulary, *, adds_begin: bool, must_begin: bool = False) -> _Description | None:
    """Describe the tokens that are added before and after each text; None if there are none.

    The file says whether there is a begin token, and `adds_begin` where it does not; with `must_begin` there is one
    whatever it says, as llama.cpp has it for Gemma 4.
    """
    metadata, around = vocabulary.metadata, {}
    for name, default in (("bos", adds_begin), ("eos", False)):
        if metadata.flag(f"{PREFIX}add_{name}_token", default) or (must_begin and name == "bos"):
            if (token_id := vocabulary.task_id(f"{name}_token")) is None:
                raise metadata.error(f"{PREFIX}{name}_token_id", f"is missing, though add_{name}_token requires it")
            around[name] = {
                "id": vocabulary.tokens[token_id],
                "ids": [token_id],
                "tokens": [vocabulary.tokens[token_id]],
            }
    if not around:
        return None
    steps = [{"SpecialToken": {"id": each["id"], "type_id": 0}} for each in around.values()]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    single = [*steps[: "bos" in around], text, *steps["bos" in around :]]
    special = {each["id"]: each for each in around.values()}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


def _stored_merges(vocabulary: Vocabulary) -> list[_Pair]:
    """Return the pairs that the file lists, best first; a space separates them, and a token may begin with one."""
    merges = vocabulary.metadata.texts(key := f"{PREFIX}merges")
    pairs = [(merge[:cut], merge[cut + 1 :]) for merge in merges if (cut := merge.find(" ", 1)) > 0]
    if len(pairs) < len(merges):
        index, merge = next(each for each in enumerate(merges) if each[1].find(" ", 1) < 0)
        raise vocabulary.metadata.error(key, f"element {index} must be two tokens and a space, is {shown(merge)}")
    return pairs


def _merges_by_score(vocabulary: Vocabulary) -> list[_Pair]:
    """Return all pairs of tokens that form a token, in the order of its score."""
    scores = vocabulary.list_of(f"{PREFIX}scores")
    tokens = [token for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True) if kind in _MERGED]
    types = vocabulary.types
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens) if types[token_id] in _MERGED}
    if (splits := sum(map(len, tokens))) > _MOST_SPLITS:
        problem = f"have {splits} characters together; they may have at most {_MOST_SPLITS}"
        raise vocabulary.metadata.error(f"{PREFIX}tokens", problem)
    merges = []
    for token in tokens:
        for cut in range(1, len(token)):
            if (left := token[:cut]) in ids and (right := token[cut:]) in ids:
                merges.append((-scores[ids[token]], ids[left], ids[right], left, right))
    merges.sort()
    return [(left, right) for *_, left, right in merges]
