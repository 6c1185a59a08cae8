"""Pre-tokenizers: how each `tokenizer.ggml.pre` splits a text into words, within which tokens are merged.

The patterns are llama.cpp's, each applied to the pieces that the one before it leaves, so that ids equal its own. Those
of GPT-4o and Tekken are the models' own instead: llama.cpp's versions know the letter classes of ASCII only.
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
_DEEPSEEK_LETTERS = (  # letters with case, of all scripts
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄ"
    "ῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{_DEEPSEEK_LETTERS}]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    _DEEPSEEK_CHINESE,
    r"\p{N}+",
)
_EAST_ASIAN = "[一-龥぀-ゟ゠-ヿ]+"
_SPARK = _DEEPSEEK3.replace(r"[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r"[\p{P}\p{S}]+|[\r\n]")
_JAIS2 = _LLAMA3.removesuffix(r"\s+(?!\S)|\s+") + "|".join(
    [*(rf"\s{{{count}}}(?!\S)" for count in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2")), r"\s"]
)
_QWEN35 = _QWEN2.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(_PUNCTUATION, r" ?[^\s\p{L}\p{M}\p{N}]+")
_SEED_CODER = _QWEN2.replace(rf"{_PUNCTUATION}[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")
_EXAONE_MOE = (
    rf"{_CASELESS}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}|{_PUNCTUATION}[\r\n/]?"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_BAILING = (
    rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_PUNCTUATION}[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_YOUTU = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"
_YOUTU_WORDS = rf"{_CASED % (_CASELESS + '?', _CASELESS + '?')}|\p{{N}}|{_PUNCTUATION}[\r\n/]*|{_SPACES}"
_DIGIT, _DIGITS, _UP_TO_3_DIGITS = r"\p{N}", r"\p{N}+", r"\p{N}{1,3}"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """The patterns of one kind, and its defaults for settings that the file does not give."""

    patterns: tuple[str, ...]
    ignores_merges: bool = False  # a word that is a token becomes that token, whatever its merges give
    adds_begin: bool = False  # there is a begin token before each text

    def describe(self) -> dict[str, Any]:
        """Return its description for tokenizer.json."""
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
_LIKE_DEEPSEEK3 = PreTokenizer((_UP_TO_3_DIGITS, _EAST_ASIAN, _DEEPSEEK3))
_LIKE_BLOOM = PreTokenizer((_BLOOM,))
_LIKE_BAILING = PreTokenizer((_BAILING,))

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, _DIGITS, "[0-9][0-9][0-9]")),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0"), _LIKE_LLAMA3),
    **dict.fromkeys(("lfm2", "jina-v5-nano"), _LIKE_LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), PreTokenizer((_LLAMA3,))),
    **dict.fromkeys(("glm4", "glm5"), PreTokenizer((_LLAMA3,), ignores_merges=True)),
    "minicpm5": PreTokenizer((_UP_TO_3_DIGITS, _LLAMA3.replace("{1,3}", "+")), ignores_merges=True),
    "jais-2": PreTokenizer((_JAIS2,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "grok-2"), _LIKE_QWEN2),
    **dict.fromkeys(("f2llmv2", "solar-open"), _LIKE_QWEN2),
    "qwen35": PreTokenizer((_QWEN35,)),
    "seed-coder": PreTokenizer((_SEED_CODER,)),
    "ufakzeka": PreTokenizer((_QWEN2.removeprefix(f"{_CASELESS}|"),)),
    "laguna": PreTokenizer((r"[^\n]+|[\n]+", _QWEN2)),
    "exaone-moe": PreTokenizer((_EXAONE_MOE,)),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), _LIKE_BAILING),
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion", "granite-docling", "exaone4"), _LIKE_GPT2),
    **dict.fromkeys(("gigachat", "a.x-4.0", "mellum", "modern-bert"), _LIKE_GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), _DIGITS_ALONE),
    "mellum2": _DIGITS_ALONE,
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), _LIKE_BLOOM),
    "viking": PreTokenizer((_BLOOM, _DIGIT)),
    "superbpe": PreTokenizer((_DIGITS, r"(?=(\d{3})+(?!\d))")),
    "deepseek-llm": PreTokenizer(_DEEPSEEK_LLM),
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_CHINESE, _DIGIT)),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), _LIKE_DEEPSEEK3),
    "spark2_5": PreTokenizer((_UP_TO_3_DIGITS, _EAST_ASIAN, _SPARK, _DIGIT)),
    "youtu": PreTokenizer((_YOUTU, _YOUTU_WORDS), ignores_merges=True),
    "tekken": PreTokenizer((_TEKKEN,), ignores_merges=True, adds_begin=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), PreTokenizer((_GPT4O,))),
    "granite-embed-multi-97m": PreTokenizer((_GPT4O,), ignores_merges=True),
}
"""By the name in the file; `default` is what llama.cpp does for a file without a name."""
