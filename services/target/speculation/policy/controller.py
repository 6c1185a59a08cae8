"""Controller: how many of a predictor's predictions the next pass verifies for each sequence."""

from collections.abc import Sequence as Items
from dataclasses import replace

from services.target.scheduling.sequence import Sequence
from services.target.speculation.policy.acceptance import Acceptance
from services.target.speculation.policy.choice import Candidate, Choice, ChoiceSearch
from services.target.speculation.policy.loss_budget import LossBudget
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS, Predictor


class Controller:
    """Chooses what yields the most tokens per second by what was measured: the cost of passes, the acceptance by place,
    the wait for the predictions. Nothing is asked for whose failure the budget could not pay.
    """

    def __init__(self, predictor: Predictor, cost: PassCost, budget: LossBudget, config: PolicyConfig) -> None:
        """The cost is the one of the target's passes, whoever predicts, and the budget that of all who do."""
        self._predictor = predictor
        self._cost = cost
        self._budget = budget
        self._config = config
        self.look_again()

    @property
    def objection(self) -> str:
        """Why it wants no predictions, for a person to read."""
        if self._budget.is_overdrawn:
            return "predictions have cost more time than they saved"
        return "predictions would cost more time than they save"

    def look_again(self) -> None:
        """Begin anew: what was measured says nothing of a predictor that has just come."""
        self.acceptance = Acceptance(self._config.acceptance, places=MOST_PREDICTIONS)
        self._search = ChoiceSearch(self._predictor, self._cost, self.acceptance, self._config)
        self._rest = 0  # steps for which it stays that nothing is predicted for these
        self._judged: list[Sequence] = []
        self._interval = self._config.exploration.first_probe_every
        self._plain_every = self._config.exploration.first_plain_every
        self._num_plain = self._num_speculative = self._probe_left = 0
        self._first_counts = self._config.exploration.first_lengths
        self.longest_wait = self.debt = 0.0

    def plan(self, candidates: Items[Candidate], *, num_rows: int, spare_rows: int) -> list[int]:
        """How many predictions to ask for each candidate, in a pass that has so many rows without them.

        What the pass may wait for them is `longest_wait`, in seconds; that is with `debt`, for what is to be read.
        """
        choice = self._choose(candidates, num_rows, spare_rows)
        counts = _within(spare_rows, choice.counts)
        self.debt = choice.debt
        if any(counts):
            most = self._budget.for_step(self._expected(choice), step=self._cost.seconds(num_rows))
            # A draft that answers late is at work beside the next pass too: of one that nobody knows, that is half.
            known = (1 + self.acceptance.confidence) / 2
            self.longest_wait = known * (most - choice.rows) + choice.debt
        return counts

    def observe(self, *, is_speculative: bool) -> None:
        """A step over sequences that leave the choice to us has ended, with predictions or without."""
        if is_speculative:
            self._num_speculative += 1
            return
        self._num_plain += 1
        if self._num_speculative >= self._plain_every:
            self._plain_every = min(2 * self._plain_every, self._config.exploration.last_plain_every)
        self._num_speculative = 0

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """The predictions for a sequence were verified."""
        self._first_counts = self._first_counts[1:]
        self.acceptance.observe(sequence, num_predicted, num_accepted)

    def close(self, sequence: Sequence) -> None:
        """The sequence has ended."""
        self.acceptance.close(sequence)

    def _choose(self, candidates: Items[Candidate], num_rows: int, spare_rows: int) -> Choice:
        nothing = Choice([0] * len(candidates))
        if not candidates or self._wants_plain(len(candidates)):
            return nothing
        if self._budget.is_unlimited:
            return self._rehearse(candidates, spare_rows)
        sequences = [each.sequence for each in candidates]
        if self._rest and sequences == self._judged:
            self._rest -= 1
        else:
            choice = self._affordable(candidates, num_rows, spare_rows)
            if choice is not None:
                self._interval = self._config.exploration.first_probe_every
                return self._explore(candidates, choice, spare_rows)
            self._rest, self._judged = self._config.exploration.rest, sequences
        return self._probe(candidates, num_rows, spare_rows) if self._is_probing() else nothing

    def _affordable(self, candidates: Items[Candidate], num_rows: int, spare_rows: int) -> Choice | None:
        """The best choice that pays and that the budget could pay for; None if there is none."""
        best = self._search.best(candidates, num_rows=num_rows, spare_rows=spare_rows)
        if not self._pays(best):
            return None
        expected, plain = self._expected(best), self._cost.seconds(num_rows)
        most = self._budget.for_step(expected, step=plain)
        most_debt = self._budget.for_reading(expected, step=plain)
        if best.risk > most or best.debt > most_debt:
            best = self._search.best(
                candidates, num_rows=num_rows, spare_rows=spare_rows, most=most, most_debt=most_debt
            )
        if self._pays(best):
            return best
        self._budget.refuse()
        return None

    def _expected(self, choice: Choice) -> float:
        """The share of time that is expected to be won, as far as anything is known."""
        return (choice.speed_up - 1) * self.acceptance.confidence

    def _rehearse(self, candidates: Items[Candidate], spare_rows: int) -> Choice:
        """Nobody waits: whatever it costs, see how fast predictions come and how good they are."""
        numbers = self._config.exploration.rehearsed_lengths
        count = min(numbers[self._num_speculative % len(numbers)], spare_rows // len(candidates))
        return Choice([min(count, each.most) for each in candidates])

    def _pays(self, choice: Choice) -> bool:
        hurdle = self._config.search.to_begin if choice.debt else self._config.search.to_continue
        return choice.gain > hurdle.mean and choice.slowest >= hurdle.slowest

    def _wants_plain(self, num_sequences: int) -> bool:
        return not self._cost.knows(num_sequences) or self._num_speculative >= self._plain_every

    def _is_probing(self) -> bool:
        if self._probe_left == 0 and self._num_plain >= self._interval:
            self._probe_left, self._num_plain = self._config.exploration.probe_steps, 0
            self._interval = min(2 * self._interval, self._config.exploration.last_probe_every)
        is_probing = self._probe_left > 0
        self._probe_left -= is_probing
        return is_probing

    def _explore(self, candidates: Items[Candidate], best: Choice, spare_rows: int) -> Choice:
        """Ask now and then for more than seems best: of places that are never verified nobody knows how good they are.
        At first ask for so many as tell how long they take.
        """
        counts = [*best.counts]
        if self._first_counts:
            most = self._first_counts[0]
            return replace(best, counts=[min(count, most) for count in counts])
        if self._num_speculative % self._config.exploration.longer_every or sum(counts) >= spare_rows:
            return best
        turn = self._num_speculative // self._config.exploration.longer_every % len(candidates)
        more = min(counts[turn] + 1, candidates[turn].most) if counts[turn] else 0
        return replace(best, counts=[*counts[:turn], more, *counts[turn + 1 :]])

    def _probe(self, candidates: Items[Candidate], num_rows: int, spare_rows: int) -> Choice:
        """Some predictions for as many sequences as can be paid for, those with the least to read first."""
        counts, risk, num_added = [0] * len(candidates), 0.0, 0
        most = self._budget.for_trial(step=self._cost.seconds(num_rows))
        debts = [self._search.debt(each) for each in candidates]
        for index in sorted(range(len(candidates)), key=debts.__getitem__):
            each = candidates[index]
            count = min(self._config.exploration.probe_length, each.most, spare_rows - num_added)
            wait = self._search.wait(each, count)
            more = debts[index] + self._search.rows(num_rows, num_added + count) + wait
            if count and risk + more <= most:
                counts[index], risk, num_added = count, risk + debts[index], num_added + count
        debt = sum(debt for debt, count in zip(debts, counts, strict=True) if count)
        return Choice(counts, debt=debt, rows=self._search.rows(num_rows, num_added))


def _within(spare_rows: int, counts: Items[int]) -> list[int]:
    """The first of them whole, as far as there are rows for them: others would be asked for in vain."""
    kept = []
    for count in counts:
        kept.append(min(count, spare_rows))
        spare_rows -= kept[-1]
    return kept
