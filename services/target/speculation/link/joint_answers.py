"""JointAnswers: the answers to requests that were sent together, as one measurement of the draft's latency."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class JointAnswers:
    """A draft predicts for all sequences of a step in the same passes, so that short runs come with the longest one,
    and all of them after a sequence that it had to read first.
    """

    num_missing: int = 0
    """Sequences whose answers have not come."""

    is_delayed: bool = False
    """Whether the draft had to read one of them."""

    longest: int = 0
    """Predictions of the longest answer so far."""

    _is_sent: bool = field(default=True, repr=False)

    def ask(self, *, is_reading: bool) -> None:
        """Add a sequence to the requests that are sent next."""
        if self._is_sent:
            self.num_missing, self.is_delayed, self.longest, self._is_sent = 0, False, 0, False
        self.num_missing += 1
        self.is_delayed |= is_reading

    def send(self) -> None:
        """Note that the requests were sent."""
        self._is_sent = True

    def arrive(self, count: int) -> int:
        """Take an answer of `count` predictions; returns the longest one's number if this was the last and the answers
        measure the latency, otherwise 0.
        """
        self.num_missing -= 1
        self.longest = max(self.longest, count)
        return self.longest if not self.num_missing and not self.is_delayed else 0
