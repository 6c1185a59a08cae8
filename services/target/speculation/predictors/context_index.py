"""ContextIndex: finds repetitions in the text of each live sequence."""

from collections import defaultdict
from itertools import islice

from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.suffix_automaton import SuffixAutomaton

_MOST_AT_ONCE = 256  # tokens, about half a millisecond, for which all sequences of the step wait


class ContextIndex:
    """Keeps one suffix automaton per sequence, over its prompt and its generated tokens."""

    def __init__(self) -> None:
        self._automata: defaultdict[Sequence, SuffixAutomaton] = defaultdict(SuffixAutomaton)

    def follow(self, sequence: Sequence) -> None:
        """Add some of the sequence's new tokens: a long prompt takes several calls, as it takes several passes.

        If tokens were taken back, the tokens before them are added again to a new automaton.
        """
        if len(self._automata[sequence]) > len(sequence.tokens):
            self.close(sequence)
        automaton = self._automata[sequence]
        for token_id in islice(sequence.tokens, len(automaton), len(automaton) + _MOST_AT_ONCE):
            automaton.append(token_id)

    def match(self, sequence: Sequence) -> tuple[int, int]:
        """The length of the longest suffix that occurred before, and the position of the end of an earlier occurrence.

        The length is 0 if there is none, or while tokens are missing here.
        """
        automaton = self._automata.get(sequence)
        if automaton is None or len(automaton) < len(sequence.tokens):
            return 0, 0
        return automaton.match_length, automaton.match_end

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence; does nothing if it is not here."""
        self._automata.pop(sequence, None)
