"""Controller: how many of a predictor's predictions the next pass verifies for each sequence."""

import heapq
from collections.abc import Sequence as Items
from dataclasses import dataclass

from services.engine.predictor import MOST_PREDICTIONS, Predictor
from services.engine.sequence import Sequence
from services.target.acceptance import Acceptance
from services.target.account import Account
from services.target.pass_cost import PassCost


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sequence that leaves the number of predictions to us, and how many it can take at most."""

    sequence: Sequence
    most: int


class Controller:
    """Chooses what yields the most tokens per second by what was measured: the cost of passes, the acceptance by place,
    the wait for the predictions. What the model says is checked against what the steps really took: see Account.
    """

    _LOOK_AHEAD = MOST_PREDICTIONS  # rows that may bring nothing before more of them do
    _PLAIN_EVERY = 16, 128  # steps, at first and later, to see what passes without predictions cost
    _PROBE_EVERY = 64  # plain steps; twice as many after each probe in vain
    _LONGEST_INTERVAL = 4096
    _PROBE_STEPS, _PROBED = 4, 2  # steps of a probe, and predictions in each
    _FIRST_MOST = 2, 4, 2, 4  # predictions in each of the first steps: how long they take, nobody knows yet

    def __init__(self, predictor: Predictor, cost: PassCost) -> None:
        """The cost is the one of the target's passes, whoever predicts."""
        self._predictor = predictor
        self._cost = cost
        self.look_again()

    @property
    def objection(self) -> str:
        """Why it wants no predictions, for a person to read."""
        if self._account.is_open:
            return "predictions would cost more time than they save"
        return "predictions have cost more time than they saved"

    def look_again(self) -> None:
        """Begin anew: what was measured says nothing of a predictor that has just come."""
        self.acceptance = Acceptance(places=MOST_PREDICTIONS)
        self._account = Account()
        self._interval = self._PROBE_EVERY
        self._plain_every = self._PLAIN_EVERY[0]
        self._num_plain = self._num_speculative = self._probe_left = 0
        self._first_mosts = [*self._FIRST_MOST]

    def plan(self, candidates: Items[Candidate], *, num_rows: int, spare_rows: int) -> list[int]:
        """How many predictions to ask for each candidate, in a pass that has so many rows without them."""
        nothing = [0] * len(candidates)
        if not candidates or not self._account.is_open or self._wants_plain(len(candidates)):
            return nothing
        counts = self._best(candidates, num_rows, spare_rows)
        if any(counts):
            self._interval = self._PROBE_EVERY
            return [min(count, self._first_mosts[-1]) for count in counts] if self._first_mosts else counts
        return [min(self._PROBED, each.most) for each in candidates] if self._is_probing() else nothing

    def observe(self, *, is_speculative: bool, num_sequences: int, num_committed: int, seconds: float) -> None:
        """A step over sequences that leave the choice to us has ended: it took so long, with the wait."""
        plain = self._cost.seconds(num_sequences)
        if not is_speculative or not plain:
            self._num_plain += 1
            if self._num_speculative >= self._plain_every:
                self._plain_every = min(2 * self._plain_every, self._PLAIN_EVERY[1])
            self._num_speculative = 0
            self._account.earn()
            return
        self._num_speculative += 1
        self._first_mosts = self._first_mosts[:-1]
        self._account.settle(num_committed / num_sequences - seconds / plain)

    def _wants_plain(self, num_sequences: int) -> bool:
        return not self._cost.knows(num_sequences) or self._num_speculative >= self._plain_every

    def _is_probing(self) -> bool:
        if self._probe_left == 0 and self._num_plain >= self._interval:
            self._probe_left, self._num_plain = self._PROBE_STEPS, 0
            self._interval = min(2 * self._interval, self._LONGEST_INTERVAL)
        is_probing = self._probe_left > 0
        self._probe_left -= is_probing
        return is_probing

    def _best(self, candidates: Items[Candidate], num_rows: int, spare_rows: int) -> list[int]:
        """Add predictions one by one, the likeliest first, and keep the numbers at which the rate was highest."""
        gains = [self.acceptance.gains(each.sequence, each.most) for each in candidates]
        heap = [(-gain[0], index) for index, gain in enumerate(gains) if gain]
        heapq.heapify(heap)
        counts = [0] * len(candidates)
        best, tokens, wait = [*counts], float(len(candidates)), 0.0
        best_rate, best_added = tokens / self._cost.seconds(num_rows), 0
        for added in range(1, min(spare_rows, self._cost.reach - num_rows) + 1):
            if not heap or added > best_added + self._LOOK_AHEAD:
                break
            gain, index = heapq.heappop(heap)
            counts[index] += 1
            if counts[index] < len(gains[index]):
                heapq.heappush(heap, (-gains[index][counts[index]], index))
            tokens -= gain
            wait = max(wait, self._predictor.wait_for(candidates[index].sequence, counts[index]))
            rate = tokens / (self._cost.seconds(num_rows + added) + wait)
            if rate > best_rate:
                best, best_rate, best_added = [*counts], rate, added
        return best
