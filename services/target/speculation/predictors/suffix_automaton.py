"""SuffixAutomaton: the longest suffix of a growing run of tokens that occurred in it before, and where."""


class SuffixAutomaton:
    """The suffix automaton of the tokens appended so far, built online, in amortised constant time per token.

    A state stands for the substrings that end at the same positions; its link leads to their longest suffix that ends
    at more of them. The link of the state of the whole run is therefore the longest suffix that occurred before.
    Source: Blumer et al., The smallest automaton recognizing the subwords of a text (1985); for speculation: Hu et al.,
    SAM Decoding (arXiv 2411.10666).

    It holds at most 2 states and 3 transitions per token, about 0.5 KiB.
    """

    _MOST_UPDATES = 32  # states told of a new occurrence per token, the longest first: a run like "aaaa" is in all

    def __init__(self) -> None:
        self.match_length = 0
        """Tokens of the longest suffix that occurred before; 0 where the last token is new."""
        self.match_end = 0
        """Tokens up to the end of an earlier occurrence of that suffix: the latest that is known."""
        self._length = [0]  # of the longest substring of each state
        self._link = [-1]
        self._next: list[dict[int, int]] = [{}]
        self._end = [0]  # of the latest known occurrence, as a number of tokens
        self._last = 0  # the state of the whole run

    def __len__(self) -> int:
        """Tokens appended."""
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
        """The state of `state`'s longest substring followed by the token, split off where others end elsewhere."""
        target = self._next[state][token_id]
        length = self._length[state] + 1
        if self._length[target] == length:
            return target
        # What is copied stays, so that all copies together are no more than the automaton's transitions.
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
