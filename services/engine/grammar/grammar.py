"""Grammar: a compiled grammar that constrains generated texts."""

from collections.abc import Callable, Collection
from collections.abc import Sequence as Seq
from concurrent.futures import Executor, Future
from functools import partial
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
        threads: Executor,
        *,
        vocab_size: int,
        looks_ahead: bool,
        num_states: int = 1,
    ) -> None:
        """`read` compiles a matcher, which may take long; the matchers of `num_states` states are compiled here, and
        those after tokens that were taken back on `threads`.
        """
        self.source = source
        self._read = read
        self._threads = threads
        self._vocab_size = vocab_size
        self._looks_ahead = looks_ahead
        self._unused = [read() for _ in range(num_states * (1 + looks_ahead))]

    def begin(self, received: Seq[int] = (), *, stop_ids: Collection[int]) -> GrammarState:
        """Return the state of a text so far; a token that ends it, and all tokens after that, are ignored.

        It takes long for a long text.
        """
        scout = self.matcher(stop_ids=stop_ids) if self._looks_ahead else None
        renew = partial(self._renew, stop_ids=stop_ids)
        state = GrammarState(self.matcher(stop_ids=stop_ids), scout, renew)
        state.advance([*takewhile(lambda token_id: token_id not in stop_ids, received)])
        return state

    def matcher(self, *, stop_ids: Collection[int]) -> GrammarMatcher:
        """Return the matcher of an empty text; `stop_ids` are allowed wherever the grammar lets the text end."""
        return self._wrap(self._unused.pop() if self._unused else self._read(), stop_ids)

    def _wrap(self, matcher: LLMatcher, stop_ids: Collection[int]) -> GrammarMatcher:
        prefers_end = self.source.prefers_end
        return GrammarMatcher(matcher, stop_ids=stop_ids, vocab_size=self._vocab_size, prefers_end=prefers_end)

    def _renew(self, token_ids: Seq[int], *, stop_ids: Collection[int]) -> Future[GrammarMatcher]:
        """Begin to make a matcher that has followed these tokens like that of a `GrammarState`."""

        def follow() -> GrammarMatcher:
            matcher = self._wrap(self._read(), stop_ids)
            for token_id in token_ids:
                matcher.mask()
                matcher.advance([token_id])
            matcher.mask()
            return matcher

        return self._threads.submit(follow)
