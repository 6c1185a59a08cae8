"""SilentPredictor: the predictor that the tests' own ones begin with."""

import math
import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq

from services.engine.events import FollowCounts, PredictionSource
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes
from services.target.speculation.predictors.predictor import PredictionRequest


class SilentPredictor:
    """Predicts nothing, and has no excuse. It is called like a draft, whose answers are taken one by one."""

    source = PredictionSource.DRAFT
    num_predictions = 4
    num_arrivals = 0
    is_busy = False

    def serves(self, sequence: Sequence) -> bool:
        """It serves every sequence."""
        return True

    def why_none(self, sequence: Sequence) -> str:
        """It gives no reason."""
        return ""

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        """It takes no time."""
        return PredictionTimes([SequenceTimes()] * len(sequences))

    def predict(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
        """Ask for all, send, and take one answer after another."""
        for request in requests:
            self.ask_for(request)
        self.send()
        return self._answers(requests)

    def _answers(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
        since = self.now()
        for sequence, length, max_wait, *_ in requests:
            yield self.take(sequence, length, until=since + max_wait) if length else []

    def now(self) -> float:
        """The time on its clock."""
        return time.monotonic()

    def rest(self, sequence: Sequence) -> None:
        """Ask for none in this step."""
        self.ask(sequence, 0)

    def ask_for(self, request: PredictionRequest) -> None:
        """Nothing is kept of an earlier request."""
        self.ask(request.sequence, request.length, request.least_chance)

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        """Nothing to begin."""

    def send(self) -> None:
        """Nothing to send."""

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        """It never predicts anything."""
        return []

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Nothing to keep or count."""
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        """Nothing to forget."""
        return FollowCounts()
