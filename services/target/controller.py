"""Controller: how many of a predictor's predictions the next pass verifies for each sequence."""

import heapq
import math
from collections.abc import Sequence as Items
from dataclasses import dataclass

from services.engine.predictor import MOST_PREDICTIONS, Predictor
from services.engine.sequence import Sequence
from services.target.acceptance import Acceptance
from services.target.account import Account
from services.target.loans import Loans
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
    _EXPLORE_EVERY = 16  # steps with predictions
    _HORIZON = 128  # passes, in which what it takes to catch up must be won back
    _TOKENS_PER_PASS = 2  # for how many passes there will be yet

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
        self._account, self._loans = Account(), Loans()
        self._served: list[Sequence] = []  # that predictions were asked for in this step
        self._read: list[Sequence] = []  # of these, those that the predictor has to read first
        self._interval = self._PROBE_EVERY
        self._plain_every = self._PLAIN_EVERY[0]
        self._num_plain = self._num_speculative = self._probe_left = 0
        self._first_mosts = [*self._FIRST_MOST]

    def plan(self, candidates: Items[Candidate], *, num_rows: int, spare_rows: int) -> list[int]:
        """How many predictions to ask for each candidate, in a pass that has so many rows without them."""
        counts = _within(spare_rows, self._choose(candidates, num_rows, spare_rows))
        self._served = [each.sequence for each, count in zip(candidates, counts, strict=True) if count]
        for sequence in self._served:
            if self._predictor.catch_up(sequence) != 0:
                self._loans.open(sequence, num_passes=self._num_passes(sequence))
        self._read = self._loans.growing(self._served)
        return counts

    def _choose(self, candidates: Items[Candidate], num_rows: int, spare_rows: int) -> list[int]:
        nothing = [0] * len(candidates)
        if not candidates or not self._account.is_open or self._wants_plain(len(candidates)):
            return nothing
        debts = self._debts(candidates)
        counts = self._best(candidates, debts, num_rows, spare_rows)
        if any(counts):
            self._interval = self._PROBE_EVERY
            if self._first_mosts:
                return [min(count, self._first_mosts[-1]) for count in counts]
            is_exploring = self._num_speculative % self._EXPLORE_EVERY == 0 and sum(counts) < spare_rows
            return self._explore(candidates, counts) if is_exploring else counts
        return self._probe(candidates, debts) if self._is_probing() else nothing

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
        gain = num_committed / num_sequences - seconds / plain
        if self._read and gain < 0:
            self._account.charge(self._loans.lend(self._read, -gain))
        else:
            self._first_mosts = self._first_mosts[:-1]
            self._account.settle(gain - self._loans.pay(self._served))

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """The predictions for a sequence were verified."""
        self._loans.answered(sequence)
        self.acceptance.observe(sequence, num_predicted, num_accepted)

    def close(self, sequence: Sequence) -> None:
        """The sequence has ended."""
        self._account.charge(self._loans.close(sequence))
        self.acceptance.close(sequence)

    def _wants_plain(self, num_sequences: int) -> bool:
        return not self._cost.knows(num_sequences) or self._num_speculative >= self._plain_every

    def _is_probing(self) -> bool:
        if self._probe_left == 0 and self._num_plain >= self._interval:
            self._probe_left, self._num_plain = self._PROBE_STEPS, 0
            self._interval = min(2 * self._interval, self._LONGEST_INTERVAL)
        is_probing = self._probe_left > 0
        self._probe_left -= is_probing
        return is_probing

    def _explore(self, candidates: Items[Candidate], counts: Items[int]) -> list[int]:
        """Ask for more than seems best: of places that are never verified nobody knows how good they are."""
        turn = self._num_speculative // self._EXPLORE_EVERY % len(candidates)
        more = counts[turn] + 1 if counts[turn] else 0
        return [*counts[:turn], min(more, candidates[turn].most), *counts[turn + 1 :]]

    def _probe(self, candidates: Items[Candidate], debts: Items[float]) -> list[int]:
        """Some predictions for those that the draft has caught up with, or else for the one with the least to read."""
        least = min(debts)
        chosen = {debts.index(least)} if least else {index for index, debt in enumerate(debts) if not debt}
        return [min(self._PROBED, each.most) if index in chosen else 0 for index, each in enumerate(candidates)]

    def _debts(self, candidates: Items[Candidate]) -> list[float]:
        """What it takes, in seconds, to catch up with each candidate; infinity for those that have to wait, since the
        account does not hold so much, or since the first one will tell how long it takes.
        """
        left = self._account.balance * self._cost.seconds(len(candidates))
        debts = []
        for each in candidates:
            debt = self._predictor.catch_up(each.sequence)
            debts.append(math.inf if debt != 0 and left <= 0 else debt or 0.0)
            left -= left if debt is None else debt
        return debts

    def _num_passes(self, sequence: Sequence) -> int:
        """For how many there will be predictions, if it does not end early."""
        return max(1, min(self._HORIZON, sequence.num_remaining // self._TOKENS_PER_PASS))

    def _best(self, candidates: Items[Candidate], debts: Items[float], num_rows: int, spare_rows: int) -> list[int]:
        """Add predictions one by one, the likeliest first, and keep the numbers at which the rate was highest."""
        gains = [
            self.acceptance.gains(each.sequence, each.most) if debt < math.inf else []
            for each, debt in zip(candidates, debts, strict=True)
        ]
        heap = [(-gain[0], index) for index, gain in enumerate(gains) if gain]
        heapq.heapify(heap)
        counts = [0] * len(candidates)
        best, tokens, wait, debt = [*counts], float(len(candidates)), 0.0, 0.0
        best_rate, best_added = tokens / self._cost.seconds(num_rows), 0
        for added in range(1, min(spare_rows, self._cost.reach - num_rows) + 1):
            if not heap or added > best_added + self._LOOK_AHEAD:
                break
            gain, index = heapq.heappop(heap)
            counts[index] += 1
            if counts[index] == 1:
                debt += debts[index] / self._num_passes(candidates[index].sequence)
            if counts[index] < len(gains[index]):
                heapq.heappush(heap, (-gains[index][counts[index]], index))
            tokens -= gain
            wait = max(wait, self._predictor.wait_for(candidates[index].sequence, counts[index]))
            rate = tokens / (self._cost.seconds(num_rows + added) + wait + debt)
            if rate > best_rate:
                best, best_rate, best_added = [*counts], rate, added
        return best


def _within(spare_rows: int, counts: Items[int]) -> list[int]:
    """The first of them whole, as far as there are rows for them: others would be asked for in vain."""
    kept = []
    for count in counts:
        kept.append(min(count, spare_rows))
        spare_rows -= kept[-1]
    return kept
