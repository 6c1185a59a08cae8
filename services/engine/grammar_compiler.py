"""GrammarCompiler: grammars as they are written to grammars that the texts of one model can follow."""

from functools import lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from services.engine.grammar import Grammar
from services.engine.grammar_source import GrammarSource
from services.engine.grammar_vocabulary import GrammarVocabulary
from services.engine.tokenizer import Tokenizer

_MOST_KEPT = 64
_MOST_SAID = 500  # characters of what is wrong with a grammar, which the library tells with all of its text
_LIMITS = LLParserLimits(
    max_lexer_states=50_000,  # at up to 2 kB
    verbose_errors=False,
)


class GrammarError(ValueError):
    """A grammar that cannot be followed."""


class GrammarCompiler:
    """Safe to share between threads. Making one takes about a second for a vocabulary of 150 000."""

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int) -> None:
        vocabulary = GrammarVocabulary(tokenizer, vocab_size=vocab_size)
        self._vocab_size = vocab_size
        self._tokenizer = LLTokenizer(vocabulary)  # type: ignore[arg-type]  # whatever has these fields will do
        vocabulary.cut_greedily = self._tokenizer.greedy_tokenize
        self._compile = lru_cache(_MOST_KEPT)(self._compile_anew)

    def compile(self, source: GrammarSource) -> Grammar:
        """Read a grammar, which may take a tenth of a second; those asked for last are kept.

        Raises GrammarError, with the library's message, for one that is wrong, too large, or followed by no text.
        """
        return self._compile(source)

    def _compile_anew(self, source: GrammarSource) -> Grammar:
        try:
            text = source.serialized()
        except ValueError as error:
            raise GrammarError(str(error)) from error
        matcher = LLMatcher(self._tokenizer, text, log_level=0, limits=_LIMITS)
        if matcher.is_error():
            raise GrammarError(matcher.get_error().strip()[:_MOST_SAID])
        grammar = Grammar(source, matcher, vocab_size=self._vocab_size)
        if not grammar.begin(stop_ids=()).masks().any():
            raise GrammarError("no text follows it, or it is too costly to follow")
        return grammar
