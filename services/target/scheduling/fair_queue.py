"""FairQueue: chooses the waiting sequence that is started next."""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator

from services.target.scheduling.fair_shares import FairShares
from services.target.sequence.sequence import Sequence

_FAVOURED_IN_ROW = 7  # sequences started by priority before one that priorities held back


class FairQueue:
    """Callers get equal shares of tokens, by weight, however many sequences they have queued; among one caller's
    sequences the highest priority comes first, then the oldest.

    A priority above 0 does not put a sequence before other callers'; one below 0 puts it after those of all callers.
    Every eighth start is the oldest sequence that priorities hold back, so that each is started eventually.
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
        """Queue a sequence."""
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
        self._priorities += Counter()  # drops the zero counts
        return True

    def first(self, is_ready: Callable[[Sequence], bool]) -> Sequence | None:
        """The ready sequence to start next, None if none is ready; it stays the same until it is taken, or until one
        that comes before it is added.
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
        """Remove a sequence that is started, and charge its caller for its prompt."""
        are_all_alike = len(self._priorities) == 1
        self._num_favoured = 0 if are_all_alike or self._is_held_back(sequence) else self._num_favoured + 1
        self.remove(sequence)
        self.charge(sequence, sequence.num_pending)

    def charge(self, sequence: Sequence, num_tokens: int) -> None:
        """Charge a sequence's caller for tokens."""
        if len(self._callers) > 1:
            self._shares.charge(sequence.request.share.caller, num_tokens)

    def _heads(self, is_ready: Callable[[Sequence], bool]) -> dict[str, Sequence]:
        """The first ready sequence of each caller."""
        heads = ((caller, next(filter(is_ready, waiting), None)) for caller, waiting in self._callers.items())
        return {caller: head for caller, head in heads if head is not None}

    def _is_held_back(self, sequence: Sequence) -> bool:
        """Whether another sequence, of its caller or of any, comes before it by priority alone."""
        if _priority(sequence) < _priority(self._callers[sequence.request.share.caller][0]):
            return True
        return _level(sequence) < 0 and any(_level(waiting[0]) > _level(sequence) for waiting in self._callers.values())


def _priority(sequence: Sequence) -> int:
    return sequence.request.share.priority


def _level(sequence: Sequence) -> int:
    """The part of a priority that counts between callers."""
    return min(_priority(sequence), 0)


def _arrival(sequence: Sequence) -> float:
    return sequence.timings.arrived


def _urgency(sequence: Sequence) -> tuple[int, float]:
    return -_priority(sequence), sequence.timings.arrived
