"""ContextIndex: where the text of each live sequence repeats itself."""

from collections import defaultdict
from itertools import islice

from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.suffix_automaton import SuffixAutomaton

_MOST_AT_ONCE = 256  # tokens, about half a millisecond: all sequences of the step wait for it


class ContextIndex:
    """Keeps one automaton per sequence, over its prompt and what was generated."""

    def __init__(self) -> None:
        self._automata: defaultdict[Sequence, SuffixAutomaton] = defaultdict(SuffixAutomaton)

    def follow(self, sequence: Sequence) -> None:
        """Take in some more of the sequence's tokens: a long prompt takes several calls, as it does several passes.

        Tokens that were taken back are in no text: those before them are taken in anew.
        """
        if len(self._automata[sequence]) > len(sequence.tokens):
            self.close(sequence)
        automaton = self._automata[sequence]
        for token_id in islice(sequence.tokens, len(automaton), len(automaton) + _MOST_AT_ONCE):
            automaton.append(token_id)

    def match(self, sequence: Sequence) -> tuple[int, int]:
        """The length of the longest suffix that occurred before, 0 for none or while tokens are missing here, and the
        number of tokens up to the end of an earlier occurrence.
        """
        automaton = self._automata.get(sequence)
        if automaton is None or len(automaton) < len(sequence.tokens):
            return 0, 0
        return automaton.match_length, automaton.match_end

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence; nothing if it is not here."""
        self._automata.pop(sequence, None)
