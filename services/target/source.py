"""Source: a predictor, and whether what it predicts is worth its cost."""

from services.engine.events import NoSpeculation, PredictionSource
from services.engine.predictor import Predictor
from services.engine.request import SpeculationMode
from services.engine.sequence import Sequence
from services.target.controller import Controller


class Source:
    """Asks a predictor for what its controller allows, and tells the controller what came of it."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self._controller = Controller()
        self._num_arrivals = predictor.num_arrivals
        self._had_a_choice = False

    @property
    def kind(self) -> PredictionSource:
        """As what its predictions are counted."""
        return self.predictor.source

    def begin_step(self) -> None:
        """A step begins."""
        self._had_a_choice = False
        if self.predictor.num_arrivals != self._num_arrivals:
            self._num_arrivals = self.predictor.num_arrivals
            self._controller.look_again()

    def predict(self, sequence: Sequence, spare_rows: int) -> list[int]:
        """Predictions for a sequence, within what is left of the pass's rows."""
        limit = min(self._controller.limit(sequence, default=self.predictor.num_predictions), spare_rows)
        self._had_a_choice |= is_automatic(sequence) and not self.predictor.why_none(sequence)
        return [*self.predictor.predict(sequence, max(0, limit))][: max(0, limit)]

    def rest(self, sequence: Sequence) -> None:
        """Another source serves the sequence for now: a draft must not run ahead on cores that the target needs."""
        self.predictor.predict(sequence, 0)

    def observe(self, seconds: float, num_committed: int) -> None:
        """A step has ended; it says something of this source only if there was something to predict or to withhold."""
        if self._had_a_choice:
            self._controller.observe(seconds, num_committed)

    def why_none(self, sequence: Sequence) -> tuple[NoSpeculation, str]:
        """Why it predicted nothing for a sequence in this step."""
        if reason := self.predictor.why_none(sequence):
            return NoSpeculation.UNAVAILABLE, reason
        if is_automatic(sequence) and not self._controller.speculates:
            return NoSpeculation.SLOWER, self._controller.detail
        return NoSpeculation.UNAVAILABLE, "no prediction came in time"


def is_automatic(sequence: Sequence) -> bool:
    """Whether the request leaves it to the server to speculate."""
    return sequence.request.speculation.mode is SpeculationMode.AUTO
