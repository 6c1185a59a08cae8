"""GrammarCompiler: compiles the sources of grammars for the vocabulary of one model."""

import json
from collections.abc import Callable
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from services.engine.grammar.grammar import Grammar
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.grammar.trial import GrammarTrial
from services.engine.text.tokenizer import Tokenizer

_MOST_SAID = 500  # characters of an error message: the library quotes the whole grammar
_MAX_LARK_ITEMS = 600  # in a row; the time of an ambiguous grammar's mask grows with its square, here to about 20 ms
_MAX_LARK_REGEXES = 6_000  # by the library's measure of their size; see services/engine/grammar/bounds.py
# Characters of a forced text. The library tokenizes all of it again for every mask, and uses the first token only. It
# drops last tokens that more text might change, which are shorter than the longest token.
_MOST_CUT = 2048


def _limits(
    *, max_items: int | None = None, max_regexes: int | None = None, precomputes: bool = True
) -> LLParserLimits:
    """Return limits of a few times the needs of usual grammars, and below the library's defaults for a mask."""
    return LLParserLimits(
        max_items_in_row=max_items,
        initial_lexer_fuel=max_regexes,
        precompute_large_lexemes=precomputes,
        step_lexer_fuel=100_000,
        step_max_items=5_000,
        max_lexer_states=50_000,  # each takes up to 2 kB
        verbose_errors=False,
    )


_LIMITS = {
    **dict.fromkeys(GrammarKind, _limits()),
    GrammarKind.LARK: _limits(max_items=_MAX_LARK_ITEMS, max_regexes=_MAX_LARK_REGEXES, precomputes=False),
}


class GrammarError(ValueError):
    """A grammar that is wrong, too large, or matches no text."""


class GrammarCompiler:
    """Compiles the grammars of one model; safe to share between threads.

    Making one takes about a second for a vocabulary of 150 000.
    """

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int) -> None:
        vocabulary = GrammarVocabulary(tokenizer, vocab_size=vocab_size)
        self._vocab_size = vocab_size
        self._vocabulary = tokenizer
        self._tokenizer = LLTokenizer(vocabulary)  # type: ignore[arg-type]  # it takes any object with these fields
        vocabulary.cut_greedily = self._tokenizer.greedy_tokenize
        self._threads = ThreadPoolExecutor(1, "grammar-renewal")

    def compile(self, source: GrammarSource, *, looks_ahead: bool = True, num_states: int = 1) -> Grammar:
        """Compile a grammar for `num_states` texts, which may take a tenth of a second for each.

        `looks_ahead` says whether masks are needed for predictions too. Raises GrammarError, with the library's
        message, for a grammar that is wrong, too large, or matches no text.
        """
        try:
            text = source.serialized(self._vocabulary, self._has_more_keys)
        except ValueError as error:
            raise GrammarError(str(error)) from error
        _check(self._read(source.kind, text))
        return self._make(source, text, looks_ahead=looks_ahead, num_states=num_states)

    def compile_again(self, trial: GrammarTrial) -> Grammar:
        """Compile a grammar that has passed `compile` before, without checking it again."""
        text = trial.source.serialized(self._vocabulary, self._has_more_keys)
        return self._make(trial.source, text, looks_ahead=trial.looks_ahead, num_states=trial.num_states)

    def _make(self, source: GrammarSource, text: str, *, looks_ahead: bool, num_states: int) -> Grammar:
        def read() -> LLMatcher:
            return self._read(source.kind, text)

        return Grammar(
            source, read, self._threads, vocab_size=self._vocab_size, looks_ahead=looks_ahead, num_states=num_states
        )

    def _has_more_keys(self, pattern: str, names: Seq[str]) -> bool:
        """Whether an object without these properties may have a key that matches the pattern."""
        schema = {
            "type": "object",
            "properties": dict.fromkeys(names, False),
            "patternProperties": {pattern: True},
            "additionalProperties": False,
            "x-guidance": {"whitespace_flexible": False},
        }
        text = json.dumps({"grammars": [{"json_schema": schema}]})
        return bytes(self._read(GrammarKind.JSON_SCHEMA, text).compute_ff_bytes()) != b"{}"

    def _read(self, kind: GrammarKind, text: str) -> LLMatcher:
        return LLMatcher(self._tokenizer, text, log_level=0, limits=_LIMITS[kind])


def _check(matcher: LLMatcher) -> None:
    """Raise GrammarError if there is no first mask. `matcher` must not be used for a text afterwards."""
    matcher.compute_bitmask()
    if matcher.is_error():
        message = matcher.get_error().removesuffix("<non-verbose/>").strip()
        raise GrammarError("no text follows it" if message == "NoExtensionBias" else message[:_MOST_SAID])


class GrammarVocabulary:
    """The bytes of every id of a model, and the tokenization of texts that a grammar forces."""

    is_tokenizer_wrapper = True
    bos_token_id = None
    eos_token_id = None  # the library then adds an id after the last one, which stands for the end of a text

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int) -> None:
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(vocab_size)]
        self.special_token_ids = sorted(token_id for token_id in tokenizer.special_ids if token_id < vocab_size)
        self.cut_greedily: Callable[[str], list[int]] | None = None
        self._tokenizer = tokenizer
        self._encode("")  # the first call is slow

    def __call__(self, text: str) -> list[int]:
        """Tokenize the beginning of a text as the tokenizer would; greedily if that adds or changes bytes, such as a
        space before it.
        """
        text = text[:_MOST_CUT]
        ids = self._encode(text)
        is_known = max(ids, default=0) < len(self.tokens)
        if is_known and b"".join(self.tokens[token_id] for token_id in ids) == text.encode():
            return ids
        assert self.cut_greedily is not None
        return self.cut_greedily(text)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False, parse_special=False)
