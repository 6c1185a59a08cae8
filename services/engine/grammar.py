"""Grammar: what a text must follow, ready to be followed."""

from collections.abc import Collection

from llguidance import LLMatcher

from services.engine.grammar_source import GrammarSource
from services.engine.grammar_state import GrammarState


class Grammar:
    """A compiled grammar; any number of texts may follow it at once, each with a state of its own."""

    def __init__(self, source: GrammarSource, matcher: LLMatcher, *, vocab_size: int) -> None:
        """`matcher` stands at the beginning, and stays there."""
        self.source = source
        self._matcher = matcher
        self._vocab_size = vocab_size

    def begin(self, *, stop_ids: Collection[int]) -> GrammarState:
        """The state of an empty text; the tokens that end one may be drawn wherever the grammar lets it end."""
        return GrammarState(self._matcher.deep_copy(), stop_ids=stop_ids, vocab_size=self._vocab_size)
