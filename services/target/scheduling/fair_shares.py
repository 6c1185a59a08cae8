"""FairShares: gives callers turns so that they get tokens in proportion to their weights."""

import math
from collections import OrderedDict
from collections.abc import Container, Mapping
from dataclasses import dataclass

_QUANTUM = 256  # tokens that a caller of weight 1 gets in each round


@dataclass(slots=True)
class _Share:
    weight: float
    balance: float  # tokens

    @property
    def quantum(self) -> float:
        return _QUANTUM * self.weight


class FairShares:
    """Deficit round robin, with costs that may become known only afterwards.

    A caller has its turn until the charges exceed its balance, to which each round adds a quantum. A new caller joins
    at the end of the round, so that no caller waits forever, however many join.
    """

    def __init__(self) -> None:
        self._round: OrderedDict[str, _Share] = OrderedDict()  # the next one first

    def set_callers(self, weights: Mapping[str, float]) -> None:
        """Set the callers that share tokens, with their weights; all others are forgotten."""
        for name in [name for name in self._round if name not in weights]:
            del self._round[name]
        for name, weight in weights.items():
            if name not in self._round:
                self._round[name] = _Share(weight, _QUANTUM * weight)

    def next(self, wanting: Container[str]) -> str:
        """The caller whose turn it is among `wanting`, which must not be empty; the same until it is charged."""
        shares = [share for name, share in self._round.items() if name in wanting]
        if all(share.balance <= 0 for share in shares):  # skip rounds in which all would only pay their debts
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
        """Charge a caller for tokens; does nothing if it is not one of those that share."""
        if name in self._round:
            self._round[name].balance -= num_tokens
