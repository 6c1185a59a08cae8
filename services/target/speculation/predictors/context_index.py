"""ContextIndex: finds repetitions in the text of each live sequence."""

from collections import defaultdict
from collections.abc import Sequence as Seq

from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.suffix_automaton import SuffixAutomaton

_MOST_AT_ONCE = 256  # tokens, about half a millisecond, for which all sequences of the step wait
_MOST_HELD = 2**21  # tokens of all sequences, about 1 GiB; a text that has no room is not indexed meanwhile
_BETWEEN = -1  # no token: nothing is matched across it


class ContextIndex:
    """Keeps one suffix automaton per sequence, over the tokens that its request expects, its prompt and its generated
    tokens.
    """

    def __init__(self, most_held: int = _MOST_HELD) -> None:
        self._room = most_held
        self._automata: defaultdict[Sequence, SuffixAutomaton] = defaultdict(SuffixAutomaton)
        self._reserved: dict[Sequence, int] = {}  # of the room, for tokens that are here and those still to be added

    def follow(self, sequence: Sequence) -> None:
        """Add some of the sequence's new tokens: a long prompt takes several calls, as it takes several passes.

        If tokens were taken back, the tokens before them are added again to a new automaton.
        """
        expected, num_before = sequence.request.speculation.expected, _num_before(sequence)
        length = num_before + len(sequence.tokens)
        if sequence in self._automata and len(self._automata[sequence]) > length:
            self.close(sequence)
        if not self._reserve(sequence, length):
            return
        automaton = self._automata[sequence]
        begin = len(automaton)
        end = begin + _MOST_AT_ONCE
        between = (_BETWEEN,) if begin < num_before <= end else ()
        own = sequence.tokens[max(0, begin - num_before) : max(0, end - num_before)]
        for token_id in (*expected[begin:end], *between, *own):
            automaton.append(token_id)

    def _reserve(self, sequence: Sequence, length: int) -> bool:
        """Reserve room for a text of so many tokens; returns False without any."""
        more = length - self._reserved.get(sequence, 0)
        if more > self._room:
            return False
        self._reserved[sequence] = length
        self._room -= more
        return True

    def match(self, sequence: Sequence) -> int:
        """The length of the longest suffix that occurred before; 0 without one, or while tokens are missing here."""
        automaton = self._automata.get(sequence)
        if automaton is None or len(automaton) < _num_before(sequence) + len(sequence.tokens):
            return 0
        return automaton.match_length

    def after_match(self, sequence: Sequence, count: int) -> Seq[int]:
        """At most so many tokens after an earlier occurrence of that suffix, repeated if it reaches the end."""
        end, expected = self._automata[sequence].match_end, sequence.request.speculation.expected
        if end < _num_before(sequence):
            return expected[end : end + count]
        end -= _num_before(sequence)
        repeated = sequence.tokens[end : end + count]
        return [repeated[offset % len(repeated)] for offset in range(count)]

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence; does nothing if it is not here."""
        self._automata.pop(sequence, None)
        self._room += self._reserved.pop(sequence, 0)


def _num_before(sequence: Sequence) -> int:
    """How many entries come before the sequence's own tokens here."""
    expected = sequence.request.speculation.expected
    return len(expected) + 1 if expected else 0
