"""SilentPredictor: the predictor that the tests' own ones begin with."""

import math
from collections.abc import Sequence as Seq

from services.engine.events import FollowCounts, PredictionSource
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes


class SilentPredictor:
    """Predicts nothing, and has no excuse."""

    source = PredictionSource.DRAFT
    num_predictions = 4
    num_arrivals = 0
    is_busy = runs_ahead = False

    def serves(self, sequence: Sequence) -> bool:
        """It serves every sequence."""
        return True

    def why_none(self, sequence: Sequence) -> str:
        """It gives no reason."""
        return ""

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        """It takes no time."""
        return PredictionTimes([SequenceTimes()] * len(sequences))

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        """Nothing to begin."""

    def keep(self, sequence: Sequence) -> None:
        """Nothing to begin."""

    def send(self) -> None:
        """Nothing to send."""

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        """It never predicts anything."""
        return []

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Nothing to keep or count."""
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        """Nothing to forget."""
        return FollowCounts()
