"""SuffixAutomaton: the longest suffix of a growing run of tokens that occurred in it before, and where."""


class SuffixAutomaton:
    """The suffix automaton of the tokens appended so far, built online, in amortised constant time per token.

    A state stands for the substrings that end at the same positions; its link leads to their longest suffix that also
    ends at other positions. So the link of the state of the whole run is the longest suffix that occurred before.
    Source: Blumer et al., The smallest automaton recognizing the subwords of a text (1985); for speculation: Hu et al.,
    SAM Decoding (arXiv 2411.10666).

    It holds at most 2 states and 3 transitions per token, about 0.5 KiB.
    """

    _MOST_UPDATES = 32  # states updated with a new occurrence per token, the longest first; in "aaaa" all would be

    def __init__(self) -> None:
        self.match_length = 0
        """The length of the longest suffix that occurred before; 0 if the last token is new."""
        self.match_end = 0
        """The position of the end of that suffix's latest known earlier occurrence."""
        self._length = [0]  # length of the longest substring of each state
        self._link = [-1]
        self._next: list[dict[int, int]] = [{}]
        self._end = [0]  # end position of the latest known occurrence of each state
        self._last = 0  # the state of the whole run

    def __len__(self) -> int:
        """The number of appended tokens."""
        return self._length[self._last]

    def append(self, token_id: int) -> None:
        """Add the next token."""
        previous, self._last = self._last, self._add_state(len(self) + 1, link=0, successors={}, end=len(self) + 1)
        state = previous
        while state >= 0 and token_id not in self._next[state]:
            self._next[state][token_id] = self._last
            state = self._link[state]
        if state >= 0:
            self._link[self._last] = self._suffix_of(state, token_id)
        matched = self._link[self._last]
        self.match_length, self.match_end = self._length[matched], self._end[matched]
        self._note_occurrence(matched)

    def _suffix_of(self, state: int, token_id: int) -> int:
        """The state of `state`'s longest substring plus the token, split off if others end at other positions."""
        target = self._next[state][token_id]
        length = self._length[state] + 1
        if self._length[target] == length:
            return target
        # Copied transitions stay in the automaton, so that all copying is bounded by the number of its transitions.
        clone = self._add_state(
            length, link=self._link[target], successors={**self._next[target]}, end=self._end[target]
        )
        self._link[target] = clone
        while state >= 0 and self._next[state].get(token_id) == target:
            self._next[state][token_id] = clone
            state = self._link[state]
        return clone

    def _add_state(self, length: int, *, link: int, successors: dict[int, int], end: int) -> int:
        self._length.append(length)
        self._link.append(link)
        self._next.append(successors)
        self._end.append(end)
        return len(self._length) - 1

    def _note_occurrence(self, state: int) -> None:
        for _ in range(self._MOST_UPDATES):
            if state <= 0:
                return
            self._end[state] = len(self)
            state = self._link[state]
