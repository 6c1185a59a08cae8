"""Pre-tokenizers: how each `tokenizer.ggml.pre` cuts a text into the words within which tokens are merged.

The patterns are llama.cpp's, one applied to what the one before it leaves, so that ids are equal to its own. Two are
those of the models instead, as its words for classes of letters miss all but ASCII ones: GPT-4o's and Tekken's.
"""

from dataclasses import dataclass
from typing import Any

_CASELESS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+|{_PUNCTUATION}|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CASELESS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_PUNCTUATION}[\r\n]*|{_SPACES}"
_QWEN2 = rf"{_CASELESS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_PUNCTUATION}[\r\n]*|{_SPACES}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
_TEKKEN = rf"{_CASED % ('', '')}|\p{{N}}|{_PUNCTUATION}[\r\n/]*|{_SPACES}"
_GPT4O = rf"{_CASED % (_CASELESS + '?', _CASELESS + '?')}|\p{{N}}{{1,3}}|{_PUNCTUATION}[\r\n/]*|{_SPACES}"
_DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)
_DEEPSEEK_CHINESE = "[一-龥ࠀ-一가-퟿]+"
_DIGIT, _DIGITS, _UP_TO_3_DIGITS = r"\p{N}", r"\p{N}+", r"\p{N}{1,3}"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """The patterns of one kind, and what comes with it where the file says nothing else."""

    patterns: tuple[str, ...]
    ignores_merges: bool = False  # a word that is a token is that token, however its merges lead
    adds_begin: bool = False  # a begin token before each text

    def describe(self) -> dict[str, Any]:
        """What tokenizer.json says of it."""
        splits = [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            for pattern in self.patterns
        ]
        as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return {"type": "Sequence", "pretokenizers": [*splits, as_bytes]}


_LIKE_GPT2 = PreTokenizer((_GPT2,))
_DIGITS_ALONE = PreTokenizer((_DIGIT, _GPT2))
_LIKE_LLAMA3 = PreTokenizer((_LLAMA3,), ignores_merges=True, adds_begin=True)
_LIKE_QWEN2 = PreTokenizer((_QWEN2,))
_LIKE_DEEPSEEK3 = PreTokenizer((_UP_TO_3_DIGITS, "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK3))

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, _DIGITS, "[0-9][0-9][0-9]")),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "midm-2.0"), _LIKE_LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe"), PreTokenizer((_LLAMA3,))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "grok-2"), _LIKE_QWEN2),
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion", "granite-docling", "exaone4"), _LIKE_GPT2),
    **dict.fromkeys(("gigachat", "a.x-4.0", "mellum"), _LIKE_GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), _DIGITS_ALONE),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense"), _LIKE_DEEPSEEK3),
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_CHINESE, _DIGIT)),
    "tekken": PreTokenizer((_TEKKEN,), ignores_merges=True, adds_begin=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2"), PreTokenizer((_GPT4O,))),
}
"""By the name that a file gives; `default` is what llama.cpp does for a file that gives none."""
