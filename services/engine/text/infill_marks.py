"""InfillMarks: the tokens that mark the parts of a text with a gap which the model fills in (fill in the middle)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Family:
    """The names of the marks in the tokenizers of some models."""

    prefix: str
    suffix: str
    middle: str | None
    suffix_first: bool = False


_FAMILIES = (
    _Family("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen2.5-Coder, CodeGemma, Granite 4
    _Family("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, StarCoder2, Granite Code
    _Family("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    _Family("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek-Coder
    _Family("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),  # GLM
    _Family("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", suffix_first=True),  # Seed-Coder
    _Family("[PREFIX]", "[SUFFIX]", None, suffix_first=True),  # Codestral
)
_FILES = ("<|file_sep|>", "<file_sep>", "<|file_separator|>", "<filename>", "<|filename|>")
_ENDS = ("<|fim_pad|>", "<fim_pad>", "<|repo_name|>", "<repo_name>", "<reponame>", "<|reponame|>")


@dataclass(frozen=True, slots=True)
class InfillMarks:
    """The ids of the marks: those before the prefix and before the suffix, and the one after both."""

    prefix: int
    suffix: int
    middle: int | None
    suffix_first: bool
    file: int | None
    """Before the name of a file; None if files cannot be marked."""
    ends: frozenset[int]
    """All marks: none of them is a part of the text that fills the gap."""

    def around(self, prefix: str, suffix: str) -> Iterator[int | str]:
        """Yield the marks and texts of a prompt, in their order."""
        parts: tuple[tuple[int, str], ...] = ((self.prefix, prefix), (self.suffix, suffix))
        for mark, text in reversed(parts) if self.suffix_first else parts:
            yield mark
            yield text
        if self.middle is not None:
            yield self.middle


def find_infill_marks(id_of: Callable[[str], int | None]) -> InfillMarks | None:
    """Return the marks of a tokenizer, None if it has none; `id_of` is None for a token that it lacks."""
    for family in _FAMILIES:
        prefix, suffix = id_of(family.prefix), id_of(family.suffix)
        middle = None if family.middle is None else id_of(family.middle)
        if prefix is None or suffix is None or (middle is None) != (family.middle is None):
            continue
        files = [token_id for name in _FILES if (token_id := id_of(name)) is not None]
        ends = [token_id for name in _ENDS if (token_id := id_of(name)) is not None]
        own = [token_id for token_id in (prefix, suffix, middle) if token_id is not None]
        file = files[0] if files else None
        return InfillMarks(prefix, suffix, middle, family.suffix_first, file, frozenset([*own, *files, *ends]))
    return None


def infill_marks_of(ids: Mapping[str, int]) -> InfillMarks | None:
    """Return the marks with given ids: `prefix`, `suffix`, `middle` and others; None without these three."""
    if not {"prefix", "suffix", "middle"} <= ids.keys():
        return None
    ends = frozenset(ids.values())
    return InfillMarks(ids["prefix"], ids["suffix"], ids["middle"], False, ids.get("file"), ends)
