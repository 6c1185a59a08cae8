"""Grammar: a compiled grammar that constrains generated texts."""

from collections.abc import Callable, Collection
from collections.abc import Sequence as Seq
from itertools import takewhile

from llguidance import LLMatcher

from services.engine.grammar.matcher import GrammarMatcher
from services.engine.grammar.source import GrammarSource
from services.engine.grammar.state import GrammarState


class Grammar:
    """A compiled grammar, which makes a state for each text.

    Each state has matchers of its own, compiled from the source: copies of one matcher share its caches, and if one
    copy exceeds a limit, all of them fail.
    """

    def __init__(
        self,
        source: GrammarSource,
        read: Callable[[], LLMatcher],
        *,
        vocab_size: int,
        looks_ahead: bool,
        num_states: int = 1,
    ) -> None:
        """`read` compiles a matcher, which may take long; the matchers of `num_states` states are compiled here."""
        self.source = source
        self._read = read
        self._vocab_size = vocab_size
        self._looks_ahead = looks_ahead
        self._prepared: GrammarState | None = None
        self._unused = [read() for _ in range(num_states * (1 + looks_ahead))]

    def prepare(self, received: Seq[int], *, stop_ids: Collection[int]) -> None:
        """Advance through the received tokens, which takes long for a long text, so that the next `begin` is fast."""
        self._prepared = self.begin(received, stop_ids=stop_ids)

    def begin(self, received: Seq[int] = (), *, stop_ids: Collection[int]) -> GrammarState:
        """Return the state of a text so far; a token that ends it, and all tokens after that, are ignored."""
        state, self._prepared = self._prepared, None
        if state is None:
            scout = self.matcher(stop_ids=stop_ids) if self._looks_ahead else None
            state = GrammarState(self.matcher(stop_ids=stop_ids), scout)
            state.advance([*takewhile(lambda token_id: token_id not in stop_ids, received)])
        return state

    def matcher(self, *, stop_ids: Collection[int]) -> GrammarMatcher:
        """Return the matcher of an empty text; `stop_ids` are allowed wherever the grammar lets the text end."""
        matcher = self._unused.pop() if self._unused else self._read()
        return GrammarMatcher(
            matcher, stop_ids=stop_ids, vocab_size=self._vocab_size, prefers_end=self.source.prefers_end
        )
