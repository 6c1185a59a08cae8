"""Loans: what it took to catch up with sequences, to be paid back out of what their predictions bring."""

from collections.abc import Iterable
from dataclasses import dataclass

from services.engine.sequence import Sequence


@dataclass(slots=True)
class _Loan:
    num_passes: int
    cost: float = 0.0
    owed: float = 0.0
    is_growing: bool = True

    def borrow(self, cost: float, *, deposit: float) -> float:
        """Returns what of it is due at once: what is missing of the deposit."""
        due = min(cost, max(0.0, deposit - self.cost))
        self.cost, self.owed = self.cost + cost, self.owed + cost - due
        return due


class Loans:
    """In plain steps. What exceeds a deposit, which is due at once, is a sequence's loan. It grows until there is a
    prediction for it, and is paid in as many equal parts as there are passes to come; what is left when the sequence
    ends is due, and so is all where it is too much.
    """

    _DEPOSIT = 4.0
    _MOST = 32.0

    def __init__(self) -> None:
        self._loans: dict[Sequence, _Loan] = {}

    def open(self, sequence: Sequence, *, num_passes: int) -> None:
        """The draft is to read the sequence, unless it is doing so."""
        loan = self._loans.setdefault(sequence, _Loan(num_passes))
        loan.num_passes, loan.cost, loan.is_growing = num_passes, 0.0, True

    def growing(self, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Those for which there is no prediction yet."""
        return [sequence for sequence in sequences if sequence in self._loans and self._loans[sequence].is_growing]

    def lend(self, sequences: list[Sequence], cost: float) -> float:
        """A step cost so much while these were read; returns what is due, for those that it has ended all."""
        due, share = 0.0, cost / len(sequences)
        for sequence in sequences:
            loan = self._loans.get(sequence)
            due += loan.borrow(share, deposit=self._DEPOSIT) if loan else share
        return due + (self._call_in() if self._owed > self._MOST else 0.0)

    def answered(self, sequence: Sequence) -> None:
        """There is a prediction for the sequence."""
        if loan := self._loans.get(sequence):
            loan.is_growing = False

    def pay(self, sequences: Iterable[Sequence]) -> float:
        """A pass verified predictions for these; returns what is due."""
        paid = 0.0
        for sequence in sequences:
            if (loan := self._loans.get(sequence)) and loan.num_passes:
                part = loan.owed / loan.num_passes
                loan.owed, loan.num_passes = loan.owed - part, loan.num_passes - 1
                paid += part
        return paid

    def close(self, sequence: Sequence) -> float:
        """The sequence has ended; returns what is due."""
        loan = self._loans.pop(sequence, None)
        return loan.owed if loan else 0.0

    @property
    def _owed(self) -> float:
        return sum(loan.owed for loan in self._loans.values())

    def _call_in(self) -> float:
        owed = self._owed
        for loan in self._loans.values():
            loan.owed = 0.0
        return owed
