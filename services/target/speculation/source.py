"""Source: a predictor, and what it is asked for."""

import math
from collections.abc import Sequence as Items

from services.engine.events import NoSpeculation, PredictionSource
from services.engine.request import SpeculationMode
from services.target.scheduling.sequence import Sequence
from services.target.speculation.policy.choice import Candidate
from services.target.speculation.policy.controller import Controller
from services.target.speculation.policy.loss_budget import LossBudget
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS, Predictor


class Source:
    """Asks a predictor for what a request wants or, where that leaves it open, what its controller thinks best."""

    def __init__(self, predictor: Predictor, cost: PassCost, budget: LossBudget, config: PolicyConfig) -> None:
        self.predictor = predictor
        self._controller = Controller(predictor, cost, budget, config)
        self._num_arrivals = predictor.num_arrivals
        self._was_asked = False

    @property
    def kind(self) -> PredictionSource:
        """As what its predictions are counted."""
        return self.predictor.source

    def plan(self, sequences: Items[Sequence], *, num_rows: int, spare_rows: int) -> list[int]:
        """A step begins, of so many rows yet: how many predictions to ask for each sequence."""
        if self.predictor.num_arrivals != self._num_arrivals:
            self._num_arrivals = self.predictor.num_arrivals
            self._controller.look_again()
        wanted = [0] * len(sequences)
        for index, sequence in enumerate(sequences):
            if not is_automatic(sequence):
                wanted[index] = self._most(sequence, spare_rows)
                spare_rows -= wanted[index]
        open_ones = [
            (index, Candidate(sequence, self._most(sequence, spare_rows)))
            for index, sequence in enumerate(sequences)
            if is_automatic(sequence) and not self.predictor.why_none(sequence)
        ]
        counts = self._controller.plan(
            [each for _, each in open_ones], num_rows=num_rows + sum(wanted), spare_rows=spare_rows
        )
        for (index, _), count in zip(open_ones, counts, strict=True):
            wanted[index] = count
        self._was_asked = any(counts)
        return wanted

    @property
    def debt(self) -> float:
        """Of the seconds that this step may wait, those for what the predictor has to read first."""
        return self._controller.debt

    def rest(self, sequence: Sequence) -> None:
        """Another source serves the sequence for now: a draft must not run ahead on cores that the target needs."""
        self.predictor.ask(sequence, 0)

    def settle(self, sequence: Sequence, num_predicted: int, num_accepted: int) -> None:
        """Its predictions for a sequence were verified."""
        self._controller.settle(sequence, num_predicted, num_accepted)

    def predict(self, sequence: Sequence, count: int, *, since: float) -> Items[int]:
        """At most `count` predictions that were asked for at that moment; a sequence that leaves the choice to us waits
        for them no longer than it could afford if they were all wrong.
        """
        until = since + self._controller.longest_wait if is_automatic(sequence) else math.inf
        return self.predictor.predict(sequence, count, until=until)[:count]

    def observe(self) -> None:
        """A step over sequences that leave the choice to us has ended."""
        self._controller.observe(is_speculative=self._was_asked)

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence."""
        self.predictor.close(sequence)
        self._controller.close(sequence)

    def why_none(self, sequence: Sequence) -> tuple[NoSpeculation, str]:
        """Why it predicted nothing for a sequence in this step."""
        if reason := self.predictor.why_none(sequence):
            return NoSpeculation.UNAVAILABLE, reason
        if is_automatic(sequence) and not self._was_asked:
            return NoSpeculation.SLOWER, self._controller.objection
        return NoSpeculation.UNAVAILABLE, "no prediction came in time"

    def _most(self, sequence: Sequence, spare_rows: int) -> int:
        """The last place of what remains is the target's own."""
        policy = sequence.request.speculation
        default = MOST_PREDICTIONS if is_automatic(sequence) else self.predictor.num_predictions
        asked = default if policy.num_predictions is None else policy.num_predictions
        return max(0, min(asked, sequence.num_remaining - 1, spare_rows))


def is_automatic(sequence: Sequence) -> bool:
    """Whether the request leaves it to the server to speculate."""
    return sequence.request.speculation.mode is SpeculationMode.AUTO
