"""JointAnswers: the answers to requests that were sent together, as one measurement of the draft's latency."""


class JointAnswers:
    """A draft predicts for all sequences of a step in the same passes, so that short runs come with the longest one,
    and all of them after a sequence that it had to read first.
    """

    def __init__(self) -> None:
        self._is_sent = True
        self._num_missing = 0  # sequences whose answers have not come
        self._is_delayed = False  # whether the draft had to read one of them
        self._longest = 0  # predictions of the longest answer so far

    def ask(self, *, is_reading: bool) -> None:
        """Add a sequence to the requests that are sent next."""
        if self._is_sent:
            self._num_missing, self._is_delayed, self._longest, self._is_sent = 0, False, 0, False
        self._num_missing += 1
        self._is_delayed |= is_reading

    def send(self) -> None:
        """Note that the requests were sent."""
        self._is_sent = True

    def arrive(self, count: int) -> int:
        """Take an answer of `count` predictions; returns the longest one's number if this was the last and the answers
        measure the latency, otherwise 0.
        """
        self._num_missing -= 1
        self._longest = max(self._longest, count)
        return self._longest if not self._num_missing and not self._is_delayed else 0
