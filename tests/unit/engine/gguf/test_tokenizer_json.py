"""The tokenizer of a GGUF file gives the ids that llama.cpp gives; see make_llama_cpp_ids.py."""

import copy
import json
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, normalizers

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.gguf.gguf_file import GgufFile
from services.engine.gguf.pre_tokenizers import PRE_TOKENIZERS
from services.engine.gguf.tokenizer_json import describe_tokenizer
from services.engine.gguf.vocabulary import TokenType, Vocabulary
from services.engine.text.tokenizer import Tokenizer
from tests.harness.models.gguf_vocabularies import write_vocabulary
from tests.harness.odd_texts import CONTROL_TEXTS, ODD_TEXTS

DATA = json.loads(Path(__file__).with_name("llama_cpp_ids.json").read_text())
TEXTS = [*ODD_TEXTS, *CONTROL_TEXTS]
# llama.cpp counts U+FFFD among punctuation, leaves line separators uncut, and takes marks for no part of a letter, all
# unlike the models' own tokenizers.
DIFFERENT = {"deepseek-coder": "\ufffd", "deepseek-llm": "\u2028"}
DIFFERENT |= dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "tekken"), "\u0301\u094d")


def change(vocabulary: dict, **values: object) -> dict:
    return copy.deepcopy(vocabulary) | values


def tokenizer(folder: Path, vocabulary: dict, pre: str | None = "default") -> Tokenizer:
    return Tokenizer.from_gguf(write_vocabulary(folder / "model.gguf", vocabulary, pre))


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_ids_of_byte_level_vocabularies_are_llama_cpps(tmp_path, pre):
    ours = tokenizer(tmp_path, DATA["vocabularies"]["bpe"], pre)
    for text, expected in zip(TEXTS, DATA["ids"]["bpe"][pre], strict=True):
        if not {*DIFFERENT.get(pre, "")} & {*text}:
            assert ours.encode(text) == expected, text


@pytest.mark.parametrize("name", ["spm", "spm_bare"])
def test_ids_of_sentencepiece_vocabularies_are_llama_cpps(tmp_path, name):
    ours = tokenizer(tmp_path, DATA["vocabularies"][name])
    for text, expected in zip(TEXTS, DATA["ids"][name]["default"], strict=True):
        assert ours.encode(text) == expected, text


def gemma4_vocabulary(folder: Path) -> tuple[dict, list[tuple[str, str]]]:
    """A vocabulary, and its merges, whose order is not that of the scores."""
    bare = write_vocabulary(folder / "bare.gguf", DATA["vocabularies"]["spm_bare"], "default")
    merges = [*reversed(describe_tokenizer(Vocabulary(GgufFile(bare).metadata))["model"]["merges"])]
    return change(DATA["vocabularies"]["spm_bare"], model="gemma4", merges=[*map(" ".join, merges)]), merges


def test_ids_of_gemma_4_are_those_of_its_own_tokenizer(tmp_path):
    """Its pairs are merged in the order of the file, not by their scores, and no space comes before a text."""
    vocabulary, merges = gemma4_vocabulary(tmp_path)
    tokens = vocabulary["tokens"]
    expected = tokenizers.Tokenizer(
        models.BPE({token: index for index, token in enumerate(tokens)}, merges, byte_fallback=True, unk_token="<unk>")
    )
    expected.normalizer = normalizers.Replace(" ", "▁")
    ours, by_scores = tokenizer(tmp_path, vocabulary), Tokenizer.from_gguf(tmp_path / "bare.gguf")
    ids = [ours.encode(text, add_special_tokens=False, parse_special=False) for text in ODD_TEXTS]
    assert ids == [expected.encode(text).ids for text in ODD_TEXTS]
    assert ids != [by_scores.encode(text, add_special_tokens=False, parse_special=False) for text in ODD_TEXTS]


def test_gemma_4_begins_each_text_whatever_the_file_says(tmp_path):
    vocabulary, _ = gemma4_vocabulary(tmp_path)
    ours = tokenizer(tmp_path, vocabulary)
    plain = ours.encode("a b", add_special_tokens=False)
    assert ours.encode("a b") == [vocabulary["keys"]["bos_token_id"], *plain]
    vocabulary["keys"] = {name: value for name, value in vocabulary["keys"].items() if name != "add_space_prefix"}
    vocabulary["keys"] |= {"add_bos_token": False}
    again = tokenizer(tmp_path, vocabulary)
    assert (again.encode("a b"), again.encode("a b", add_special_tokens=False)) == (ours.encode("a b"), plain)


@pytest.mark.parametrize(("model", "num_ends"), [("gpt2", 1), ("gemma4", 3)])
def test_tokens_that_end_a_turn_are_known_by_their_texts(tmp_path, model, num_ends):
    """Those of Gemma 4 are of any type, but a plain </s> is a text like any other."""
    vocabulary = change(DATA["vocabularies"]["bpe"], model=model)
    types = {"<eos>": TokenType.CONTROL, "<turn|>": TokenType.NORMAL, "<|tool_response>": TokenType.USER_DEFINED}
    for place, (token, kind) in enumerate({**types, "</s>": TokenType.NORMAL}.items()):
        vocabulary["tokens"][place], vocabulary["types"][place] = token, int(kind)
    found = Vocabulary(GgufFile(write_vocabulary(tmp_path / "model.gguf", vocabulary, "default")).metadata)
    assert found.end_ids() - {vocabulary["keys"]["eos_token_id"]} == {*range(num_ends)}


@pytest.mark.parametrize("name", ["bpe", "spm", "spm_bare"])
def test_bytes_of_a_text_come_back(tmp_path, name):
    ours = tokenizer(tmp_path, DATA["vocabularies"][name])
    for text in ODD_TEXTS:
        spelled = text if name == "bpe" else text.replace("▁", " ")
        ids = ours.encode(text, add_special_tokens=False, parse_special=False)
        assert b"".join(map(ours.token_bytes, ids)) == (" " * (name == "spm" and text != "") + spelled).encode()


def test_control_tokens_are_hidden_and_those_of_users_are_not(tmp_path):
    ours = tokenizer(tmp_path, DATA["vocabularies"]["bpe"])
    begin, end, mark = (
        ours.encode(token, add_special_tokens=False)[0] for token in ("<|begin|>", "<|end|>", "<|mark|>")
    )
    assert ours.special_ids == {begin, end}
    assert ours.token_bytes(mark) == b"<|mark|>"
    assert mark in ours.encode("<|mark|>", parse_special=False)
    assert begin not in ours.encode("<|begin|>", add_special_tokens=False, parse_special=False)


def test_padding_of_the_vocabulary_is_no_token(tmp_path):
    vocabulary = DATA["vocabularies"]["bpe"]
    assert vocabulary["tokens"][-1] == "[PAD]"
    assert tokenizer(tmp_path, vocabulary).vocab_size == len(vocabulary["tokens"]) - 1


def test_begin_and_end_tokens_are_put_around_as_the_file_says(tmp_path):
    vocabulary = copy.deepcopy(DATA["vocabularies"]["bpe"])
    vocabulary["keys"] |= {"add_bos_token": True, "add_eos_token": True}
    begin, end = (vocabulary["keys"][f"{name}_token_id"] for name in ("bos", "eos"))
    ids = tokenizer(tmp_path, vocabulary, "gpt-2").encode("a")
    assert (ids[0], ids[-1], len(ids)) == (begin, end, 3)
    vocabulary["keys"] |= {"add_bos_token": False, "add_eos_token": False}
    assert tokenizer(tmp_path, vocabulary, "llama-bpe").encode("a") == ids[1:-1]


@pytest.mark.parametrize(
    ("prefix", "suffix", "middle"),
    [
        ("fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id"),
        ("prefix_token_id", "suffix_token_id", "middle_token_id"),
    ],
)
def test_a_file_may_give_the_marks_of_gaps(tmp_path, prefix, suffix, middle):
    vocabulary = copy.deepcopy(DATA["vocabularies"]["bpe"])
    assert tokenizer(tmp_path, vocabulary).infill_marks is None
    mark = vocabulary["tokens"].index("<|mark|>")  # which is no control token
    vocabulary["keys"] |= {prefix: 3, suffix: mark, middle: 5, "fim_sep_token_id": 7, "fim_pad_token_id": 8}
    ours = tokenizer(tmp_path, vocabulary)
    marks = ours.infill_marks
    assert [*marks.around("a", "b")] == [3, "a", mark, "b", 5]
    assert (marks.file, marks.ends) == (7, {3, mark, 5, 7, 8})
    assert mark not in ours.encode("<|mark|>", add_special_tokens=False, parse_special=False)
    vocabulary["keys"][suffix] = 1 << 20
    with pytest.raises(CheckpointError, match=suffix):
        tokenizer(tmp_path, vocabulary)


def test_a_file_without_pre_tokenizer_is_read_with_a_warning(tmp_path, caplog):
    vocabulary = DATA["vocabularies"]["bpe"]
    unnamed, default = (tokenizer(tmp_path, vocabulary, pre) for pre in (None, "default"))
    assert "'tokenizer.ggml.pre': is missing" in caplog.text
    assert [*map(unnamed.encode, TEXTS)] == [*map(default.encode, TEXTS)]


BPE, SPM = DATA["vocabularies"]["bpe"], DATA["vocabularies"]["spm"]
BAD = [
    (
        change(BPE, model="bert"),
        "default",
        "key 'tokenizer.ggml.model': 'bert' is not supported; allowed are gpt2, ",
    ),
    (BPE, "nobodys", "key 'tokenizer.ggml.pre': 'nobodys' is not supported; allowed are default, llama3"),
    (
        change(BPE, merges=["ab"]),
        "gpt-2",
        "key 'tokenizer.ggml.merges': element 0 must be two tokens and a space, is",
    ),
    (change(BPE, merges=["a zzzz"]), "gpt-2", "is not a usable tokenizer"),
    (change(BPE, types=[1, 2]), "gpt-2", "key 'tokenizer.ggml.token_type': has 2 elements for"),
    (
        change(BPE, tokens=["a"] * len(BPE["tokens"])),
        "gpt-2",
        "key 'tokenizer.ggml.tokens': 'a' occurs twice, as 0 and",
    ),
    (
        change(BPE, tokens=["a" * 1025] * len(BPE["tokens"])),
        "gpt-2",
        "token 0 has 1025 characters; it may have at most",
    ),
    (
        change(BPE, keys={"bos_token_id": 9999}),
        "llama-bpe",
        "'tokenizer.ggml.bos_token_id': must be a whole number from 0",
    ),
    (change(BPE, keys={}), "llama-bpe", "key 'tokenizer.ggml.bos_token_id': is missing, though add_bos_token"),
    (
        change(BPE, keys={"add_bos_token": 3}),
        "gpt-2",
        "key 'tokenizer.ggml.add_bos_token': must be true or false, is 3",
    ),
    (change(SPM, scores=[1.0]), "default", "key 'tokenizer.ggml.scores': has 1 elements for"),
]


@pytest.mark.parametrize(("vocabulary", "pre", "problem"), BAD, ids=[problem[:50] for *_, problem in BAD])
def test_a_tokenizer_that_cannot_be_used_is_refused(tmp_path, vocabulary, pre, problem):
    with pytest.raises(CheckpointError) as refused:
        tokenizer(tmp_path, vocabulary, pre)
    assert str(refused.value).startswith(str(tmp_path / "model.gguf"))
    assert problem in str(refused.value)
