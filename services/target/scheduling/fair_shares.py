"""FairShares: whose turn it is, so that callers get tokens in proportion to their weights."""

import math
from collections import OrderedDict
from collections.abc import Container, Mapping
from dataclasses import dataclass

_QUANTUM = 256  # tokens that a caller of weight 1 gets with each round


@dataclass(slots=True)
class _Share:
    weight: float
    balance: float  # tokens

    @property
    def quantum(self) -> float:
        return _QUANTUM * self.weight


class FairShares:
    """Deficit round robin, with costs that may be known only afterwards.

    A caller has its turn until what it was charged exceeds its balance; each round adds to that. Who comes anew stands
    behind all others, so that nobody waits for ever, however many come.
    """

    def __init__(self) -> None:
        self._round: OrderedDict[str, _Share] = OrderedDict()  # the next one first

    def set_callers(self, weights: Mapping[str, float]) -> None:
        """Those between whom there is something to share, with their weights; the others are forgotten."""
        for name in [name for name in self._round if name not in weights]:
            del self._round[name]
        for name, weight in weights.items():
            if name not in self._round:
                self._round[name] = _Share(weight, _QUANTUM * weight)

    def next(self, wanting: Container[str]) -> str:
        """Whose turn it is among those who want one, of whom there is one at least; the same until it is charged."""
        shares = [share for name, share in self._round.items() if name in wanting]
        if all(share.balance <= 0 for share in shares):  # rounds in which all would only pay what they owe
            rounds = min(math.floor(-share.balance / share.quantum) for share in shares)
            for share in shares:
                share.balance += rounds * share.quantum
        while True:
            name = next(name for name in self._round if name in wanting)
            if (share := self._round[name]).balance > 0:
                return name
            share.balance += share.quantum
            self._round.move_to_end(name)

    def charge(self, name: str, num_tokens: int) -> None:
        """A caller has got so many tokens; nothing where there is nothing to share with it."""
        if name in self._round:
            self._round[name].balance -= num_tokens
