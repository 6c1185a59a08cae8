"""Grammar: what a text must follow, ready to be followed."""

from collections.abc import Callable, Collection

from llguidance import LLMatcher

from services.engine.grammar_source import GrammarSource
from services.engine.grammar_state import GrammarState


class Grammar:
    """A grammar that can be followed.

    Each state has matchers of its own, read from the source: copies of one share what they learn on the way, and where
    that becomes too much for one of them, all of them fail.
    """

    def __init__(
        self,
        source: GrammarSource,
        first: LLMatcher,
        read: Callable[[], LLMatcher],
        *,
        vocab_size: int,
        looks_ahead: bool,
        num_states: int = 1,
    ) -> None:
        """`read` makes a matcher like the first one, which may take long: what so many states need is made here."""
        self.source = source
        self._read = read
        self._vocab_size = vocab_size
        self._looks_ahead = looks_ahead
        self._unused = [first, *(read() for _ in range(num_states * (1 + looks_ahead) - 1))]

    def begin(self, *, stop_ids: Collection[int]) -> GrammarState:
        """The state of an empty text; the tokens that end one may be drawn wherever the grammar lets it end."""
        scout = self._take() if self._looks_ahead else None
        return GrammarState(self._take(), scout, stop_ids=stop_ids, vocab_size=self._vocab_size)

    def _take(self) -> LLMatcher:
        return self._unused.pop() if self._unused else self._read()
