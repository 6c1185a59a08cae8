"""FairQueue: which of the sequences that wait is started next."""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator

from services.target.scheduling.fair_shares import FairShares
from services.target.sequence.sequence import Sequence

_FAVOURED_IN_ROW = 7  # sequences that are started for their priority before one that had to step back


class FairQueue:
    """Callers take turns by the tokens that they get; among one caller's sequences the higher priority comes first,
    then the older one.

    A priority above 0 puts nobody before another caller, one below 0 puts a sequence behind everybody's others. Every
    eighth start is that of the oldest sequence that priorities hold back: in the end each one is started.
    """

    def __init__(self) -> None:
        self._callers: dict[str, list[Sequence]] = {}  # each in the order of its starts
        self._priorities: Counter[int] = Counter()
        self._shares = FairShares()
        self._num_favoured = 0

    def __iter__(self) -> Iterator[Sequence]:
        for waiting in self._callers.values():
            yield from waiting

    def add(self, sequence: Sequence) -> None:
        """Let a sequence wait."""
        insort(self._callers.setdefault(sequence.request.share.caller, []), sequence, key=_urgency)
        self._priorities[sequence.request.share.priority] += 1

    def remove(self, sequence: Sequence) -> bool:
        """Forget a sequence; False if it is not here."""
        share = sequence.request.share
        if sequence not in (waiting := self._callers.get(share.caller, [])):
            return False
        waiting.remove(sequence)
        if not waiting:
            del self._callers[share.caller]
        self._priorities[share.priority] -= 1
        self._priorities += Counter()  # which drops those that nobody has
        return True

    def first(self, is_ready: Callable[[Sequence], bool]) -> Sequence | None:
        """The sequence to start next of those that are ready; the same until it is taken, or another one comes before
        it; None if none is ready.
        """
        heads = self._heads(is_ready)
        if not heads:
            return None
        if self._num_favoured >= _FAVOURED_IN_ROW:
            held_back = [sequence for sequence in filter(is_ready, self) if self._is_held_back(sequence)]
            if held_back:
                return min(held_back, key=_arrival)
        top = max(map(_level, heads.values()))
        heads = {caller: head for caller, head in heads.items() if _level(head) == top}
        if len(self._callers) == 1:
            (head,) = heads.values()
            return head
        self._shares.set_callers({caller: waiting[0].request.share.weight for caller, waiting in self._callers.items()})
        return heads[self._shares.next(heads)]

    def take(self, sequence: Sequence) -> None:
        """Remove a sequence that is started, at its caller's cost."""
        are_all_alike = len(self._priorities) == 1
        self._num_favoured = 0 if are_all_alike or self._is_held_back(sequence) else self._num_favoured + 1
        self.remove(sequence)
        self.charge(sequence, sequence.num_pending)

    def charge(self, sequence: Sequence, num_tokens: int) -> None:
        """A sequence's caller has got so many tokens."""
        if len(self._callers) > 1:
            self._shares.charge(sequence.request.share.caller, num_tokens)

    def _heads(self, is_ready: Callable[[Sequence], bool]) -> dict[str, Sequence]:
        """The sequence of each caller that would be started first."""
        heads = ((caller, next(filter(is_ready, waiting), None)) for caller, waiting in self._callers.items())
        return {caller: head for caller, head in heads if head is not None}

    def _is_held_back(self, sequence: Sequence) -> bool:
        """Whether another one of its caller's comes before it, or everybody's, for the priority alone."""
        if _priority(sequence) < _priority(self._callers[sequence.request.share.caller][0]):
            return True
        return _level(sequence) < 0 and any(_level(waiting[0]) > _level(sequence) for waiting in self._callers.values())


def _priority(sequence: Sequence) -> int:
    return sequence.request.share.priority


def _level(sequence: Sequence) -> int:
    """What counts of a priority between callers."""
    return min(_priority(sequence), 0)


def _arrival(sequence: Sequence) -> float:
    return sequence.timings.arrived


def _urgency(sequence: Sequence) -> tuple[int, float]:
    return -_priority(sequence), sequence.timings.arrived
