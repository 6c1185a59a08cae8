"""Choice: numbers of predictions for the sequences of a pass, and the search for the best ones."""

import heapq
import math
from collections.abc import Sequence as Items
from dataclasses import dataclass

from services.target.scheduling.sequence import Sequence
from services.target.speculation.policy.acceptance import Acceptance
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS, Predictor


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sequence that leaves the number of predictions to us, and how many it can take at most."""

    sequence: Sequence
    most: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Numbers of predictions, and what is expected of them; times in seconds."""

    counts: Items[int]
    speed_up: float = 1.0  # over a pass without predictions, once the draft has read what it has to
    gain: float = 1.0  # the same with what it takes to read, shared out over the passes to come
    slowest: float = 1.0  # the speed-up of the sequence that gains least
    debt: float = 0.0  # for what the draft has to read first
    rows: float = 0.0  # that the pass takes longer
    risk: float = 0.0  # that all but the reading takes longer, if none comes true


class ChoiceSearch:
    """What a predictor's predictions are expected to bring, as far as the target's passes and they were measured."""

    def __init__(self, predictor: Predictor, cost: PassCost, acceptance: Acceptance, config: PolicyConfig) -> None:
        self._predictor = predictor
        self._cost = cost
        self._acceptance = acceptance
        self._config = config

    def debt(self, candidate: Candidate) -> float:
        """Seconds to catch up with a sequence; while nobody knows, as long as the target itself at most, which reads as
        many tokens as it verifies predictions in about one pass.
        """
        debt = self._predictor.catch_up(candidate.sequence)
        if debt is None:
            return len(candidate.sequence.tokens) / MOST_PREDICTIONS * self._cost.seconds(1)
        return debt

    def wait(self, candidate: Candidate, count: int) -> float:
        """Seconds that so many predictions may be waited for."""
        return self._config.draft.wait_margin * self._predictor.wait_for(candidate.sequence, count) if count else 0.0

    def rows(self, num_rows: int, num_more: int) -> float:
        """Seconds that a pass takes longer for so many rows more."""
        return self._cost.seconds(num_rows + num_more) - self._cost.seconds(num_rows)

    def best(
        self,
        candidates: Items[Candidate],
        *,
        num_rows: int,
        spare_rows: int,
        most: float = math.inf,
        most_debt: float = math.inf,
    ) -> Choice:
        """Add predictions one by one, the likeliest first, and keep the numbers at which the rate was highest of those
        that risk no more than `most`, with no more than `most_debt` to read first.
        """
        trial = _Trial(self, candidates, plain=self._cost.seconds(num_rows))
        best, best_added, least = Choice([0] * len(candidates)), 0, self._config.search.to_continue.slowest
        look_ahead = self._look_ahead(len(candidates))
        room = min(spare_rows, self._cost.reach - num_rows)
        while trial.is_open and trial.added < min(room, best_added + look_ahead):
            rows = self.rows(num_rows, trial.added + 1)
            if trial.add(rows, most=most, most_debt=most_debt) and trial.gain > best.gain and trial.slowest >= least:
                best, best_added = trial.choice(), trial.added
        return best

    def _look_ahead(self, num_sequences: int) -> int:
        """Predictions that may bring nothing before more of them do."""
        config = self._config.search
        return min(max(config.min_look_ahead, config.look_ahead_per_sequence * num_sequences), config.max_look_ahead)


class _Trial:
    """Numbers that grow one by one."""

    def __init__(self, search: ChoiceSearch, candidates: Items[Candidate], *, plain: float) -> None:
        self._search, self._candidates, self._plain = search, candidates, plain
        acceptance, caution = search._acceptance, search._config.acceptance.caution
        self._chances = [acceptance.chances(each.sequence) for each in candidates]
        self._cautious = [acceptance.chances(each.sequence, caution=caution) for each in candidates]
        self._counts = [0] * len(candidates)
        self._tokens = [1.0] * len(candidates)  # of each sequence, unless it was only unlucky
        self._total = float(len(candidates))
        self._rows = self._wait = self._debt = self._debt_per_pass = 0.0
        self.added = 0
        self._heap = [(-chances.next(), index) for index, chances in enumerate(self._chances) if candidates[index].most]
        heapq.heapify(self._heap)

    @property
    def is_open(self) -> bool:
        """Whether any sequence can take one more."""
        return bool(self._heap)

    @property
    def gain(self) -> float:
        """As Choice's."""
        return self._speed_up(self._debt_per_pass)

    @property
    def slowest(self) -> float:
        """As Choice's."""
        return min(self._tokens) / self._step * self._plain

    def choice(self) -> Choice:
        """The numbers as they are."""
        risk = self._rows + self._search._config.draft.wait_margin * self._wait
        return Choice(
            [*self._counts], self._speed_up(0.0), self.gain, self.slowest, self._debt, rows=self._rows, risk=risk
        )

    def add(self, rows: float, *, most: float, most_debt: float) -> bool:
        """The likeliest prediction more, with which the pass takes so much longer; False if it would be too dear."""
        search = self._search
        gain, index = heapq.heappop(self._heap)
        each, count = self._candidates[index], self._counts[index]
        debt = 0.0 if count else search.debt(each)
        wait = max(self._wait, search._predictor.wait_for(each.sequence, count + 1))
        if rows + search._config.draft.wait_margin * wait > most or self._debt + debt > most_debt:
            return False
        self.added, self._rows, self._wait, self._debt = self.added + 1, rows, wait, self._debt + debt
        self._debt_per_pass += debt / self._num_passes(each.sequence)
        self._counts[index] += 1
        self._total -= gain
        self._tokens[index] += self._cautious[index].next()
        if self._counts[index] < each.most:
            heapq.heappush(self._heap, (-self._chances[index].next(), index))
        return True

    @property
    def _step(self) -> float:
        return self._plain + self._rows + self._wait

    def _speed_up(self, debt: float) -> float:
        return self._total / len(self._candidates) * self._plain / (self._step + debt)

    def _num_passes(self, sequence: Sequence) -> int:
        """For how many there will be predictions, if it does not end early."""
        config = self._search._config.search
        return max(1, min(config.horizon, sequence.num_remaining // config.tokens_per_pass))
