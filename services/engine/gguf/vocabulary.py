"""Vocabulary: the tokens of a GGUF file, with their types and the ids of special tokens."""

from enum import IntEnum
from functools import cached_property

from services.engine.gguf.metadata import Metadata

PREFIX = "tokenizer.ggml."  # prefix of the keys
_MOST_TOKEN_BYTES = 1 << 10  # the pairs of parts of a token take memory with the square of its length
# The texts that llama.cpp takes as tokens that end a turn or a text, whatever the file says.
_ENDS = {
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "</s>"),
    *("<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>"),
    "<｜end▁of▁sentence｜>",
}
_ENDS_OF_GEMMA4 = {"<eos>", "<turn|>", "<|tool_response>"}  # of whatever type, as llama.cpp takes them too
_TASKS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id",  # sic
    "pad_token": "padding_token_id",
    "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}
_OF_SPM = {"bos_token": 1, "eos_token": 2, "unk_token": 0}


class TokenType(IntEnum):
    """The purpose of a token."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Vocabulary:
    """One file's tokens, by their ids."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata

    @cached_property
    def model(self) -> str:
        """llama.cpp's name for the kind of tokenizer; raises CheckpointError if it is missing."""
        return self.metadata.required_text(f"{PREFIX}model")

    @cached_property
    def tokens(self) -> list[str]:
        """All tokens; raises CheckpointError for one that is too long."""
        tokens = self.metadata.texts(key := f"{PREFIX}tokens")
        for index, token in enumerate(tokens):
            if len(token) > _MOST_TOKEN_BYTES:
                problem = f"token {index} has {len(token)} characters; it may have at most {_MOST_TOKEN_BYTES}"
                raise self.metadata.error(key, problem)
        return tokens

    @cached_property
    def types(self) -> list[int]:
        """The TokenType of each token."""
        if (key := f"{PREFIX}token_type") not in self.metadata:
            return [TokenType.NORMAL] * len(self.tokens)
        return [int(kind) for kind in self.list_of(key)]

    def list_of(self, key: str) -> list[float]:
        """Return a list with a number for each token; raises CheckpointError for another length."""
        numbers: list[float] = self.metadata.numbers(key).tolist()
        if len(numbers) != len(self.tokens):
            raise self.metadata.error(key, f"has {len(numbers)} elements for {len(self.tokens)} tokens")
        return numbers

    def task_id(self, name: str) -> int | None:
        """Return the id of a special token, such as `bos_token`; None if there is none."""
        token_id = self.metadata.index(f"{PREFIX}{_TASKS[name]}", len(self.tokens))
        if token_id is None and self.model == "llama" and _OF_SPM.get(name, len(self.tokens)) < len(self.tokens):
            return _OF_SPM[name]
        return token_id

    def special_tokens(self) -> dict[str, str]:
        """Return the texts of the special tokens, by their names in chat templates."""
        found = {name: self.task_id(name) for name in _TASKS}
        return {name: self.tokens[token_id] for name, token_id in found.items() if token_id is not None}

    def end_ids(self) -> set[int]:
        """Return the ids that end a generation: those that the file names, and those known by their texts."""
        named = [self.metadata.index(f"{PREFIX}{end}_token_id", len(self.tokens)) for end in ("eot", "eom")]
        marks = (TokenType.CONTROL, TokenType.USER_DEFINED)
        known = [i for i, token in enumerate(self.tokens) if token in _ENDS and self.types[i] in marks]
        if self.model == "gemma4":
            known += [i for i, token in enumerate(self.tokens) if token in _ENDS_OF_GEMMA4]
        return {token_id for token_id in (self.task_id("eos_token"), *named, *known) if token_id is not None}
