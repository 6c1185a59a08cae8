"""Checkpoints whose tokenizer has the marks for filling in the middle."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer

QWEN_MARKS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>")


def add_marks(folder: Path, names: tuple[str, ...] = QWEN_MARKS) -> tuple[int, ...]:
    """Give a checkpoint marks, which are no special tokens, as in Qwen's; returns their ids."""
    path = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    tokenizer.add_tokens([AddedToken(name, normalized=False, special=False) for name in names])
    tokenizer.save(path)
    return tuple(token_id for name in names if (token_id := tokenizer.token_to_id(name)) is not None)
